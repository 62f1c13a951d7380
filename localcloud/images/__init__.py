"""Container images of the local cloud: built without Docker, cached, and served read-only under their upstream
names."""
