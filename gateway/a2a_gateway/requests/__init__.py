"""What a request says: path, query, body, headers."""
