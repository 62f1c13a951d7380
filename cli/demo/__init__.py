"""`demo`: the lifecycle of a cluster on this machine, step by step."""
