"""Verbs that work on a whole cluster, and access to its Kubernetes API."""
