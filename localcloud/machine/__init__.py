"""Resources of this machine that clusters and hosts use, and how they are released.

capability.py  reasons why clusters or hosts cannot run here, as sentences
cgroups.py     create cgroups and remove them from the leaves up
network.py     create network namespaces, enter them in a thread, remove them
supervisor.py  starts processes, watches them, reports crashes
ledger.py      everything that must be removed at the end, recorded before it is created
"""
