"""Hostile inputs for every surface on which the program reads what others have written, and a judge of the results."""
