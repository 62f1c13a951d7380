"""Track which hosts belong to which VPC. The emulation of a VPC starts with its first host and stops after its last
host has left."""

import threading
from collections.abc import Callable

from localcloud.hosts.vpc import Vpc

Key = tuple[str, str, str]
"""Identity of a VPC: account, region and VPC id."""


class Neighbours:
    """Running VPCs and their hosts."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._vpcs: dict[Key, Vpc] = {}
        self._members: dict[str, Key] = {}

    def add_host(self, key: Key, instance_id: str, make: Callable[[], Vpc]) -> Vpc:
        """Add a host to its VPC and return the VPC. Start the VPC if it is not running."""
        with self._lock:
            vpc = self._vpcs.get(key)
            if vpc is None:
                vpc = make()
                try:
                    vpc.start()
                except BaseException:
                    vpc.stop()
                    raise
                self._vpcs[key] = vpc
            self._members[instance_id] = key
            return vpc

    def remove_host(self, instance_id: str) -> None:
        """Remove a host from its VPC. Stop the VPC if this was its last host."""
        with self._lock:
            key = self._members.pop(instance_id, None)
            if key is not None and key not in self._members.values():
                self._vpcs.pop(key).stop()
