"""Local counterparts of the Pulumi engine: a language host and emulators of the AWS and Kubernetes providers."""
