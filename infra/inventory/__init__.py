"""The AWS resources that a stack creates, and for each type of resource its cost, its quotas and the permissions that it needs.

The program itself is the list of resources: `resources.py` runs the program and records the resources that it registers.
`table.py` has one entry per resource type.
"""
