"""Routes, derived from the annotations of the protos."""
