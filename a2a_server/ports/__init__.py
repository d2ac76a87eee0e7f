"""What the core asks of the outside: one Protocol per point of variation."""
