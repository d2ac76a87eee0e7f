"""The HTTP doors of the draft between 0.3 and 1.0, under a path of their own, on the requests of 1.0 (DRFT)."""
