"""The ports made real; siblings never meet."""
