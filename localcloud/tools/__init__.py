"""Non-Python programs of the local cloud, cached: built once from pinned Go modules, or taken from Debian packages."""
