"""The Pulumi program: what is created on AWS for one stack. `program.py` is the table of contents."""
