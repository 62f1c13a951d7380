"""The local cloud's non-Python programs: built from pinned Go modules or unpacked from Debian packages, and cached."""
