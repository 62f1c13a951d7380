"""`health`: print the faults of nodes, the next steps and the affected jobs, and the history of one node."""
