"""The key bucket: publishes this node's notice and reads those of the other nodes."""

import contextlib
import hashlib
from typing import Any

from gpumpi_join.cluster_file import ClusterFile
from gpumpi_join.members import Member, find_bucket_writer_role_id
from gpumpi_join.notice import MAX_BYTES, BadNotice, Notice

PREFIX = "nodes/"
GONE = ("AccessDenied", "NoSuchKey")
"""S3's error codes for a GetObject of an object that expired after it was listed."""


def build_own_s3_prefix(identity: str) -> str:
    """Return the only prefix to which the instance with this identity (`AROA...:i-...`, IAM's aws:userid) may write."""
    return f"{PREFIX}{identity}/"


def build_notice_key(folder: str) -> str:
    return f"{folder}notice.json"


def build_boot_log_key(folder: str) -> str:
    return f"{folder}boot.log"


def build_waiting_reason_key(folder: str) -> str:
    return f"{folder}waiting.txt"


def find_contradiction(notice: Notice, member: Member) -> str:
    """Return the claims in the notice that EC2 does not confirm; empty if EC2 confirms its address and host name."""
    if notice.address != member.address:
        return f"it claims address {notice.address}; EC2 reports {member.address}"
    if notice.hostname != member.hostname:
        return f"it claims host name {notice.hostname}; EC2 reports {member.hostname or 'none yet'}"
    return ""


class Bucket:
    """Client for the key bucket. The client reads only changed objects, so most rounds cost one listing."""

    def __init__(self, s3: Any, name: str) -> None:
        self._s3 = s3
        self._name = name
        self._read: dict[str, tuple[str, Notice]] = {}
        """Maps an object key to the object's ETag and parsed notice."""

    def publish(self, folder: str, notice: Notice) -> bool:
        """Upload the notice unless it is already in the bucket. Objects expire, and a user may empty the bucket."""
        key, body = build_notice_key(folder), notice.to_json().encode()
        # List instead of GetObject: without ListBucket on the whole bucket, S3 returns 403 for a missing object.
        if self._list_etags(key).get(key) == f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"':
            return False
        self._s3.put_object(Bucket=self._name, Key=key, Body=body, ContentType="application/json")
        return True

    def put_boot_log(self, folder: str, text: bytes) -> None:
        self._s3.put_object(Bucket=self._name, Key=build_boot_log_key(folder), Body=text, ContentType="text/plain")

    def put_waiting_reason(self, folder: str, reason: bytes) -> None:
        """Upload the reason why this node has not joined yet."""
        self._s3.put_object(Bucket=self._name, Key=build_waiting_reason_key(folder), Body=reason, ContentType="text/plain")

    def read_notices(self, cluster: ClusterFile, members: "dict[str, Member]") -> "tuple[dict[str, Notice], dict[str, str]]":
        """Return the trusted notices by instance ID, and the reasons for rejecting the others by object key.

        A notice is trusted only if its writer is a member: the object key contains the role ID and instance ID, and the
        bucket policy lets only that role on that instance write there. Its address and host name must also match those
        that EC2 reports.
        """
        expected = {
            build_notice_key(build_own_s3_prefix(f"{find_bucket_writer_role_id(cluster, member)}:{member.instance_id}")): member
            for member in members.values()
        }
        tags = self._list_etags(PREFIX)
        trusted: dict[str, Notice] = {}
        rejected = {key: "not an instance of this cluster" for key in tags if key not in expected and key.endswith("notice.json")}
        for key, member in expected.items():
            if key not in tags:
                continue
            try:
                notice = self._read_notice(key, tags[key])
            except BadNotice as error:
                rejected[key] = str(error)
                continue
            if notice is None:
                continue
            contradiction = find_contradiction(notice, member)
            if contradiction:
                rejected[key] = contradiction
            else:
                trusted[member.instance_id] = notice
        return trusted, rejected

    def _list_etags(self, prefix: str) -> dict[str, str]:
        """Return a mapping from keys to ETags. The ETag is the content's MD5 because the bucket uses SSE-S3."""
        pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=self._name, Prefix=prefix)
        return {s3_object["Key"]: s3_object["ETag"] for page in pages for s3_object in page.get("Contents", ())}

    def _read_notice(self, key: str, etag: str) -> "Notice | None":
        cached = self._read.get(key)
        if cached is not None and cached[0] == etag:
            return cached[1]
        try:
            response = self._s3.get_object(Bucket=self._name, Key=key)
        except self._s3.exceptions.ClientError as error:
            if error.response["Error"]["Code"] in GONE:
                return None
            raise
        with contextlib.closing(response["Body"]) as body:
            notice = Notice.parse(body.read(MAX_BYTES + 1))
        self._read[key] = (response["ETag"], notice)
        return notice
