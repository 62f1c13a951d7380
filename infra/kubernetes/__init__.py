"""Kubeconfigs, and how this machine reaches an API server."""
