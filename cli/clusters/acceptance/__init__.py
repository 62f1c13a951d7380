"""`scripts/cluster acceptance`: checks a running stack row by row and writes a report.

`verb` runs the command. `cost` computes the cost, and `own_jobs` runs acceptance's jobs and finds those of other users.
`eks` and `ec2` define the rows of each target, `checklist` runs them, and `report` writes the result.
"""
