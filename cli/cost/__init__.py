"""What a stack costs: the line of `init`, `submit` and `status`, and the spending so far."""
