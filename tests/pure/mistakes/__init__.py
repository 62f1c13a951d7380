"""Mistakes in stacks, by topic: each case is one mistake with its full message."""
