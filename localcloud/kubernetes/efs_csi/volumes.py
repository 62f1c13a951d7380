"""Parse EFS volumes in mount requests and locate their files, for the driver on a node."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from localcloud.kubernetes.csi.node_server import InvalidVolume, Source
from localcloud.kubernetes.efs_csi import DRIVER, handles
from localcloud.kubernetes.efs_csi.handles import Handle, InvalidHandle

ENCRYPT_IN_TRANSIT = "encryptInTransit"

Resolve = Callable[[Handle, bool], Source]
"""Function that returns the location of a volume's files. Arguments: the volume's handle, and whether data is encrypted
in transit. Raises MountRefused.
"""


@dataclass(frozen=True)
class EfsVolume:
    handle: Handle
    encrypted: bool

    def __str__(self) -> str:
        return str(self.handle)


class EfsVolumes:
    driver = DRIVER
    version = "v3.4.1"
    statistics = True

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve

    def parse(self, request: Any) -> EfsVolume:
        try:
            handle = handles.parse(request.volume_id)
        except InvalidHandle as error:
            raise InvalidVolume(str(error)) from error
        encrypted = str(request.volume_context.get(ENCRYPT_IN_TRANSIT, "true")).lower()
        if encrypted not in ("true", "false"):
            raise InvalidVolume(f"Volume context property {ENCRYPT_IN_TRANSIT!r} must be a boolean value, not {encrypted!r}")
        return EfsVolume(handle, encrypted == "true")

    def resolve(self, volume: EfsVolume) -> Source:
        return self._resolve(volume.handle, volume.encrypted)
