"""Non-Python programs of the local cloud, cached: built from pinned Go modules or unpacked from Debian packages."""
