"""Implementation of `scripts/cluster`: one module per verb, imported only when the verb runs."""
