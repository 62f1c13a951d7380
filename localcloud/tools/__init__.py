"""Programs that the local cloud runs and that are not Python, in a cache: built once from pinned Go modules, or Debian's."""
