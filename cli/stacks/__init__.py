"""Verbs that work on stack files and stacks."""
