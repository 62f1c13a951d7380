"""`health`: the faults of nodes, what follows from them, and the history of a node."""
