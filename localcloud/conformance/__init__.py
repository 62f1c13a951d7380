"""Compares runs of the same stacks with our programs and with Pulumi's official ones, step by step."""
