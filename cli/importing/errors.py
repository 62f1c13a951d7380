"""Why a file cannot be imported."""


class NotImportable(Exception):
    """The file contains no job that a job file could describe. The message says why and what to do."""
