"""Stand-in for the official Kubernetes provider: serves pulumi_kubernetes to Pulumi engines."""
