"""One module per target: EKS, EC2 without Kubernetes, and existing clusters."""
