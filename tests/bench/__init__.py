"""Benchmarks against the official SDK and against ourselves under growth; `make bench` runs them (design 9)."""
