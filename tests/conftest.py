"""What of the tests' configuration pyproject.toml cannot hold."""

from hypothesis import settings

# The tests share the machine with each other; how long one example takes says nothing.
settings.register_profile("here", deadline=None)
settings.load_profile("here")
