"""One operation per RPC; each class bears its RPC's name."""
