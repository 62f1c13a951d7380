"""Checks of `scripts/cluster plan`: whether this account can create the stack.

Each check answers yes, no with a fix, or unknown with a reason.
"""
