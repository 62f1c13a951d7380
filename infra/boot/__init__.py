"""User data as pure functions: what an instance does when it boots."""
