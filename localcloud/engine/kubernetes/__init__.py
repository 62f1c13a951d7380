"""Emulator of Pulumi's Kubernetes provider: serves pulumi_kubernetes to Pulumi engines."""
