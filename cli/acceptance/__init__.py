"""`scripts/cluster acceptance`: checks a running stack row by row and writes a report.

`verb` runs the command. `cost` computes the cost, and `own_jobs` finds other people's jobs. `eks` and `ec2` list the
rows of a target, `checklist` runs them, and `report` writes the result.
"""
