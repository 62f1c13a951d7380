"""Programs that the local cloud runs and no package registry has ready: built once from pinned Go modules, then cached."""
