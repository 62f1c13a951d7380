"""Emulator of Pulumi's AWS provider: its resource handlers call the local AWS."""
