"""Costs of a stack: prices from AWS's Price List or from a dated snapshot, and the bill of a planned cluster."""
