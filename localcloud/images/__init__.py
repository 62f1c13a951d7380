"""Container images of the local cloud: built without Docker into a cache and served read-only by upstream names."""
