"""Schema of a stack file: frozen pydantic models, one module per section."""
