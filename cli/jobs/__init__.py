"""Verbs that work on jobs."""
