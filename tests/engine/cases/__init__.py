"""Test cases, one per resource type, with all properties of the type and the effect of changing each property."""
