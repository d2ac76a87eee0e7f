"""The agent card as the gateway shows it."""
