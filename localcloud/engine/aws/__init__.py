"""Emulator of Pulumi's AWS provider: its resource handlers work on the local AWS."""
