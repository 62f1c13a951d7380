"""Pulumi program that creates the resources of one stack. Start reading at `program.py`."""
