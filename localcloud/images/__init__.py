"""Container images of the local cloud: built without Docker into a cache, served read-only under upstream names."""
