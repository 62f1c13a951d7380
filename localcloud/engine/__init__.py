"""What the Pulumi engine talks to on this machine: a language host and emulators of the AWS and Kubernetes providers."""
