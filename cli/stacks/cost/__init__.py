"""Cost of a stack: the line printed by `init`, `submit` and `status`, and the spending so far."""
