"""The AWS resources that a stack creates, and what each type of resource costs, counts against and is allowed by.

The program itself is the list: `resources.py` runs it and records what it registers. `table.py` has one entry per
resource type.
"""
