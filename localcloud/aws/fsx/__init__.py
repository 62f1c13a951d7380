"""FSx for Lustre: adds the states, updates, data repository associations and errors that moto lacks.

    capacity.py      which deployment types, sizes and throughputs AWS accepts (pure)
    file_systems.py  create, describe, update and delete file systems
    network.py       subnets, security groups and network interfaces of file servers
    associations.py  data repository associations
    repository.py    moves files between a linked directory and its bucket
    mounting.py      which clients may mount a file system

File contents are stored in the same folder as the contents of EFS file systems (localcloud/aws/efs/contents.py). The
local cloud rejects what it does not emulate: SCRATCH_1, PERSISTENT_1, HDD, Intelligent-Tiering, EFA, backups, logging,
root squash, metadata configurations, and data repository tasks. FSx loads the content of an imported file on first
access; the local cloud copies it immediately.
"""


def extend_moto() -> None:
    """Register this service's operations."""
    from localcloud.aws.fsx import associations, file_systems, mounting  # noqa: F401
