"""One case per resource type: everything one can say about it, and what becomes of it when that changes."""
