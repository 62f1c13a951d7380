"""The node's configuration: `/etc/gpumpi/cluster.json`, written by user data at boot."""

import json
from dataclasses import dataclass, fields
from pathlib import Path

MASTER, WORKER = "master", "worker"


class BadClusterFile(Exception):
    """The cluster file is missing, or its format is not the one that this version expects."""


@dataclass(frozen=True)
class ClusterFile:
    """The cluster and this node's role in it."""

    stack: str
    region: str
    bucket: str
    role: str
    """`master` or `worker`."""
    user: str
    """The SSH user whose key the nodes exchange."""
    slots: int
    """Ranks that this node runs; 0 for a head node that only launches jobs."""
    idle_slots: int
    """Ranks that a head node with 0 slots runs while there are no workers."""
    auto_scaling_group: str
    lifecycle_hook: str
    join_seconds: int
    """Seconds from boot until a worker that has not joined gives up. The hook waits longer, to allow a log upload."""
    master_role_id: str
    worker_role_id: str
    """Unique IDs (AROA...) of the roles. A prefix to which an instance may write starts with the ID of its role."""

    @property
    def is_master(self) -> bool:
        return self.role == MASTER

    @classmethod
    def read(cls, file: Path) -> "ClusterFile":
        """Read and check the cluster file. Raises BadClusterFile."""
        try:
            content = json.loads(file.read_text())
        except (OSError, ValueError) as error:
            raise BadClusterFile(f"{file}: {error}") from None
        expected = {field.name: field.type for field in fields(cls)}
        if not isinstance(content, dict) or set(content) != set(expected):
            raise BadClusterFile(f"{file}: expected exactly {', '.join(sorted(expected))}")
        for name, kind in expected.items():
            if type(content[name]) is not kind:
                raise BadClusterFile(f"{file}: {name} is {content[name]!r}")
        if content["role"] not in (MASTER, WORKER):
            raise BadClusterFile(f"{file}: role is {content['role']!r}, neither {MASTER} nor {WORKER}")
        return cls(**content)
