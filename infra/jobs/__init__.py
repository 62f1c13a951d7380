"""One model of a job -> plain Kubernetes manifests, by pure functions."""
