"""Emulator of Pulumi's Kubernetes provider, for programs that use the SDK pulumi_kubernetes."""
