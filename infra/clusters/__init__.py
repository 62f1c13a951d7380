"""What each target builds: EKS, EC2 without Kubernetes, or an existing cluster."""
