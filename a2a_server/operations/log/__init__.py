"""Logs of tasks: readers of what is durable, and replay."""
