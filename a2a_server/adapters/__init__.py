"""The ports, implemented. No adapter imports another."""
