"""Helpers shared by tests and benchmarks: clusters, projects and clients of a local cloud, and polling. Imports
nothing from tests/.
"""
