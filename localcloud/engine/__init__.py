"""Local Pulumi plugins: a language host and emulators of the AWS and Kubernetes providers."""
