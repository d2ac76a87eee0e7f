"""Webhooks: what is owed to them, and paying it."""
