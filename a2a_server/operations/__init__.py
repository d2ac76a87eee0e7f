"""What an operation does, free of transport."""
