"""What a stack costs: the line printed by `init`, `submit` and `status`, and the spending so far."""
