"""`scripts/cluster status`: a cluster on one screen. `verb` queries, `model` holds what is known, `screen` prints it."""
