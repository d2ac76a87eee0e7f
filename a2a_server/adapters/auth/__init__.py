"""Ways to know who calls."""
