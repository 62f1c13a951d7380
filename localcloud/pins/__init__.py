"""`make outdated`: list every version that this repository pins, and the newest known version.

collect.py     reads the pins from the repository's files
registries.py  queries package indexes and Go module proxies with `pip` and `go`, as configured on this machine
recorded.py    lists versions found elsewhere, with source and date, for pins that no registry serves
"""
