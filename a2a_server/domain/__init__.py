"""Pure functions on the protocol's messages."""
