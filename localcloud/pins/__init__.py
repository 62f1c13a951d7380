"""`make outdated`: every pinned version of this repository, with the newest known version.

collect.py     the pins, read from the files that pin them registries.py  queries package indexes and Go module proxies
with `pip` and `go`, as configured on this machine recorded.py    what was read elsewhere, with source and date, for
pins that no registry serves
"""
