"""Job model, and pure functions that turn a job into Kubernetes manifests."""
