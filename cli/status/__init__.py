"""`scripts/cluster status`: one screen of a cluster. `verb` asks, `model` is what is known, `screen` prints it."""
