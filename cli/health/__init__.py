"""`health`: print faults of nodes, their consequences, and the history of a node."""
