"""Volume handles: `fs-1234`, `fs-1234:/path`, `fs-1234::fsap-5678`, `fs-1234:/path:fsap-5678`.

https://github.com/kubernetes-sigs/aws-efs-csi-driver/blob/master/docs/README.md: static provisioning
"""

import re
from dataclasses import dataclass

_FILE_SYSTEM, _ACCESS_POINT = re.compile(r"fs-\w+"), re.compile(r"fsap-\w+")


class InvalidHandle(Exception):
    """The volume handle is malformed. The message contains the reason."""


@dataclass(frozen=True)
class Handle:
    file_system: str
    access_point: str | None = None
    path: str = "/"

    def __str__(self) -> str:
        path = "" if self.path == "/" else self.path
        return ":".join([self.file_system, path, self.access_point] if self.access_point else [self.file_system, path]).rstrip(
            ":"
        )


def parse(text: str) -> Handle:
    parts = text.split(":")
    if len(parts) > 3:
        raise InvalidHandle(f"volume ID {text!r} is invalid: expected at most three fields separated by ':'")
    file_system, path, access_point = (*parts, "", "")[:3]
    if not _FILE_SYSTEM.fullmatch(file_system):
        raise InvalidHandle(f"volume ID {text!r} is invalid: expected a file system ID of the form 'fs-...'")
    if access_point and not _ACCESS_POINT.fullmatch(access_point):
        raise InvalidHandle(f"volume ID {text!r} has an invalid access point ID {access_point!r}: expected 'fsap-...'")
    return Handle(file_system, access_point or None, f"/{path.strip('/')}")
