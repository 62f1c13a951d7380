"""`scripts/cluster status`: `verb` runs the queries, `model` holds the results, and `screen` prints them."""
