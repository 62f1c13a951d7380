"""Verbs that work on nodes: `health` and `prepare-node`."""
