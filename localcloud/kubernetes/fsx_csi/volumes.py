"""Parse Lustre volumes in mount requests and locate their files, for the driver on a node.

https://github.com/kubernetes-sigs/aws-fsx-csi-driver/blob/master/pkg/driver/node.go (NodePublishVolume)
"""

from collections.abc import Callable
from typing import Any

from localcloud.kubernetes.csi.node_server import InvalidVolume, Source
from localcloud.kubernetes.fsx_csi import DRIVER

DNS_NAME, MOUNT_NAME = "dnsname", "mountname"
"""Volume attributes."""
DEFAULT_MOUNT_NAME = "fsx"

Resolve = Callable[[str], Source]
"""Function that takes the source of a Lustre mount and returns the location of the volume's files. Raises
MountRefused."""


class LustreVolumes:
    driver = DRIVER
    version = "v1.9.0"
    statistics = False

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve

    def parse(self, request: Any) -> str:
        """Return the source of the mount. Like the real driver, this method does not compare the source with the volume
        handle."""
        if not request.volume_id:
            raise InvalidVolume("Volume ID not provided")
        dns_name = request.volume_context.get(DNS_NAME, "")
        if not dns_name:
            raise InvalidVolume("dnsname is not provided")
        return f"{dns_name}@tcp:/{request.volume_context.get(MOUNT_NAME, '') or DEFAULT_MOUNT_NAME}"

    def resolve(self, volume: str) -> Source:
        return self._resolve(volume)
