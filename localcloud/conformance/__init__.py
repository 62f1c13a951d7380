"""Compare runs of the same stacks, step by step: with this project's programs and with Pulumi's official programs."""
