"""Reading a stack file: YAML, parsing, messages, problems, and the preflight that collects them."""
