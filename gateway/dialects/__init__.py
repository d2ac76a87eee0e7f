"""How older versions spell what 1.0 says: data over one codec (design: §5)."""
