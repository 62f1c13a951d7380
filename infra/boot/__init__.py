"""Pure functions that render user data, which configures an instance at boot."""
