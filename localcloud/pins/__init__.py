"""`make outdated`: lists every version pinned in this repository with the newest known version.

collect.py     reads the pins from the repository's files
registries.py  queries package indexes and Go module proxies with `pip` and `go`, as configured on this machine
recorded.py    lists versions found elsewhere, with source and date, for pins that no registry serves
"""
