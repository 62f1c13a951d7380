"""Kubeconfigs, and connections to an API server."""
