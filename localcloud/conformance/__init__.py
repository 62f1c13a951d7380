"""The same stacks with our programs and with Pulumi's official ones, compared step by step."""
