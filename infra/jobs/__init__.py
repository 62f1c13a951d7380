"""Job model, and pure functions that render a job as Kubernetes manifests."""
