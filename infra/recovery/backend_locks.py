"""Locks of a stack in Pulumi's backend: who acquired them, when, and whether that operation may still run.

Path and content of a lock: https://github.com/pulumi/pulumi/blob/v3.246.0/pkg/backend/diy/lock.go
"""

import json
import os
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

LONGEST_OPERATION: Final = timedelta(hours=6)
"""Age after which a lock from another host is taken for a forgotten one. GitHub ends a CI job after this time:
https://docs.github.com/en/actions/reference/limits"""
_FRACTION: Final = re.compile(r"(\.\d{1,6})\d*")
"""Go writes nanoseconds."""


@dataclass(frozen=True)
class BackendLock:
    """The lock of one Pulumi operation."""

    user: str
    host: str
    pid: int
    taken: datetime

    @property
    def owner(self) -> str:
        return f"{self.user}@{self.host} (process {self.pid})"

    def may_be_in_use(self, now: datetime) -> bool:
        """Return whether the operation may still run. For a process on another host, only the lock's age can be checked."""
        if self.host == socket.gethostname():
            return is_pulumi_running(self.pid)
        return now - self.taken < LONGEST_OPERATION


def is_pulumi_running(pid: int) -> bool:
    """Return whether the process exists on this machine and is not another program that got the same ID later."""
    try:
        os.kill(pid, 0)
    except PermissionError:  # another user's process
        pass
    except (ProcessLookupError, OverflowError):
        return False
    try:
        name, _, rest = Path(f"/proc/{pid}/stat").read_text(errors="replace").partition("(")[2].rpartition(") ")
    except OSError:  # the machine does not run Linux, or /proc hides the processes of other users
        return True
    return "pulumi" in name and rest[0] not in "ZX"


def find_backend_folder(url: str) -> Path | None:
    """Return the folder in which the backend with this URL keeps its files; None if the backend is not a folder."""
    scheme, _, place = url.partition("://")
    return Path(place.partition("?")[0]).expanduser() / ".pulumi" if scheme == "file" else None


def read_locks(url: str, project: str, stack: str) -> list[BackendLock] | None:
    """Return the locks of a stack in the backend with this URL; None if the locks cannot be read."""
    locks = f"locks/organization/{project}/{stack.rpartition('/')[2]}"
    folder = find_backend_folder(url)
    try:
        if folder is not None:
            return [_parse_lock(file.read_text(encoding="utf-8")) for file in sorted((folder / locks).glob("*.json"))]
        if urlsplit(url).scheme == "s3":
            return [_parse_lock(text) for text in _read_bucket(url, f".pulumi/{locks}")]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return None


def _parse_lock(text: str) -> BackendLock:
    content = json.loads(text)
    taken = datetime.fromisoformat(_FRACTION.sub(r"\1", content["timestamp"]))
    return BackendLock(str(content["username"]), str(content["hostname"]), int(content["pid"]), taken.astimezone(UTC))


def _read_bucket(url: str, folder: str) -> Iterator[str]:
    from botocore.exceptions import BotoCoreError, ClientError  # slow to import

    address = urlsplit(url)
    prefix = "/".join(filter(None, (address.path.strip("/"), folder)))
    try:
        s3 = _create_s3_client({name: values[0] for name, values in parse_qs(address.query).items()})
        keys = [
            entry["Key"]
            for page in s3.get_paginator("list_objects_v2").paginate(Bucket=address.netloc, Prefix=f"{prefix}/")
            for entry in page.get("Contents", ())
        ]
        for key in keys:
            yield s3.get_object(Bucket=address.netloc, Key=key)["Body"].read().decode()
    except (BotoCoreError, ClientError) as error:
        raise OSError(str(error)) from None


def _create_s3_client(query: dict[str, str]) -> Any:
    """Return a client for the bucket of a backend. `query` is the query of the backend's URL:
    https://gocloud.dev/howto/blob/#s3"""
    import boto3.session  # slow to import

    session = boto3.session.Session(profile_name=query.get("profile"), region_name=query.get("region"))
    endpoint = query.get("endpoint")
    return session.client("s3", endpoint_url=endpoint and (endpoint if "://" in endpoint else f"https://{endpoint}"))
