"""What clusters and hosts hold of this machine, and give back.

capability.py  what keeps anything from coming alive here, in sentences
cgroups.py     control groups: made, removed from the leaves up
network.py     network namespaces: made, entered by a thread, removed
supervisor.py  starts processes, watches them, tells of crashes
ledger.py      what must be gone in the end, written down before it is made
"""
