"""Error for files that cannot be imported."""


class NotImportable(Exception):
    """The file contains no job that a job file could describe. The message contains the reason and the fix."""
