"""Error for files that cannot be imported."""


class NotImportable(Exception):
    """The file cannot be converted into a job file. The message contains the reason and the fix."""
