"""What tests share: a world with a real gRPC door, and readers of its answers."""
