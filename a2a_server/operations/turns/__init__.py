"""Turns: driving agents, and writing what they say."""
