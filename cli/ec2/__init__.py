"""Verbs that work on EC2 clusters (without Kubernetes)."""
