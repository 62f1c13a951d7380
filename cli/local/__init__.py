"""Verbs that work on the local cloud."""
