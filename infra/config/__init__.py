"""Read a stack file: load the YAML, parse it, and collect all problems in a preflight check."""
