"""Shared by tests and benches: clusters, projects and clients of a local cloud, and waits. Imports nothing from tests/."""
