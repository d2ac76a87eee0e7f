"""Messages and gRPC services made from proto/ by `make gen`; never edited."""
