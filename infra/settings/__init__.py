"""What a stack file may contain: frozen pydantic models, one module per section."""
