"""Checks of `scripts/cluster plan`: can this account create the stack?

Each check answers yes, no with a fix, or unknown with a reason.
"""
