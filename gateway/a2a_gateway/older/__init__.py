"""Doors of older versions: 0.3, and the draft between it and 1.0."""
