"""What is installed into a Kubernetes cluster. Its modules load pulumi_kubernetes, so only `infra.program` imports them, on use;
`manifests` does not."""
