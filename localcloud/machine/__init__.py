"""Manage this machine's resources for clusters and hosts.

`capability.py` reports why clusters or hosts cannot run on this machine.
`cgroups.py` creates and removes cgroups.
`network.py` creates, enters and removes network namespaces.
`supervisor.py` starts and monitors processes and reports crashes.
`ledger.py` records resources before they are created, for cleanup after a crash.
"""
