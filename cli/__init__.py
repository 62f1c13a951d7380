"""The command line behind `scripts/cluster`: one module per verb, imported only when the verb is used."""
