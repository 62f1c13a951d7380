"""What a node is told at boot: `/etc/gpumpi/cluster.json`, written by user data."""

import json
from dataclasses import dataclass, fields
from pathlib import Path

MASTER, WORKER = "master", "worker"


class BadClusterFile(Exception):
    """The file is not what this version understands."""


@dataclass(frozen=True)
class ClusterFile:
    """The cluster, and this node's part in it."""

    stack: str
    region: str
    bucket: str
    role: str
    """`master` or `worker`."""
    user: str
    """The login user, whose key the nodes exchange."""
    slots: int
    """Ranks that this node takes; 0 for a master that only launches."""
    idle_slots: int
    """Ranks that a master of 0 slots takes while there is no worker."""
    auto_scaling_group: str
    lifecycle_hook: str
    join_seconds: int
    """After its boot; a worker that has not joined by then gives up. The hook waits longer, so that its log is there before."""
    master_role_id: str
    worker_role_id: str
    """Unique ids (AROA...) of the roles: the first part of the names under which their instances may write."""

    @property
    def is_master(self) -> bool:
        return self.role == MASTER

    @classmethod
    def read(cls, file: Path) -> "ClusterFile":
        """Raises BadClusterFile."""
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
