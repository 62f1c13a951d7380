"""Container images of the local cloud: made here, without Docker, into a cache; served read-only under their upstream names."""
