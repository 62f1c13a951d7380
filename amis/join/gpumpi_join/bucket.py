"""The key bucket: one's own notice, and those of the others."""

import hashlib
from typing import Any

from gpumpi_join.cluster_file import ClusterFile
from gpumpi_join.members import Member, role_id
from gpumpi_join.notice import BadNotice, Notice

PREFIX = "nodes/"
GONE = ("AccessDenied", "NoSuchKey")
"""S3's answers to a GetObject of what was listed a moment ago and has expired since."""


def own_folder(identity: str) -> str:
    """Where alone the instance with this identity (`AROA...:i-...`, IAM's aws:userid) may write."""
    return f"{PREFIX}{identity}/"


def notice_key(folder: str) -> str:
    return f"{folder}notice.json"


def boot_log_key(folder: str) -> str:
    return f"{folder}boot.log"


class Bucket:
    """Reads only what changed: most of the time that is one listing."""

    def __init__(self, s3: Any, name: str) -> None:
        self._s3 = s3
        self._name = name
        self._read: dict[str, tuple[str, Notice]] = {}
        """Object key -> its ETag and what it said."""

    def publish(self, folder: str, notice: Notice) -> bool:
        """Put the notice there unless it is there already: objects expire, and a reader may have emptied the bucket."""
        key, body = notice_key(folder), notice.to_json().encode()
        # Not by a GetObject: of a missing object it answers 403 to who may list only with a prefix.
        if self._listed(key).get(key) == f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"':
            return False
        self._s3.put_object(Bucket=self._name, Key=key, Body=body, ContentType="application/json")
        return True

    def put_boot_log(self, folder: str, text: bytes) -> None:
        self._s3.put_object(Bucket=self._name, Key=boot_log_key(folder), Body=text, ContentType="text/plain")

    def notices(self, cluster: ClusterFile, members: "dict[str, Member]") -> "tuple[dict[str, Notice], dict[str, str]]":
        """What members say of themselves, by instance id, and why some are not believed.

        A notice counts only where its writer's identity is a member's: role and instance are in the key, and the bucket's
        policy lets nobody write there but that role on that instance. It must also name the address that EC2 names.
        """
        expected = {notice_key(own_folder(f"{role_id(cluster, one)}:{one.instance_id}")): one for one in members.values()}
        seen = self._listed(PREFIX)
        believed: dict[str, Notice] = {}
        refused = {key: "not an instance of this cluster" for key in seen if key not in expected and key.endswith("notice.json")}
        for key, member in expected.items():
            if key not in seen:
                continue
            try:
                notice = self._notice(key, seen[key])
            except BadNotice as error:
                refused[key] = str(error)
                continue
            if notice is None:
                continue
            if notice.address != member.address:
                refused[key] = f"says it is at {notice.address}; EC2 says {member.address}"
            else:
                believed[member.instance_id] = notice
        return believed, refused

    def _listed(self, prefix: str) -> dict[str, str]:
        """Key -> ETag, which is the MD5 of what was put: S3 encrypts with its own key here."""
        pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=self._name, Prefix=prefix)
        return {one["Key"]: one["ETag"] for page in pages for one in page.get("Contents", ())}

    def _notice(self, key: str, etag: str) -> "Notice | None":
        known = self._read.get(key)
        if known is not None and known[0] == etag:
            return known[1]
        try:
            answer = self._s3.get_object(Bucket=self._name, Key=key)
        except self._s3.exceptions.ClientError as error:
            if error.response["Error"]["Code"] in GONE:
                return None
            raise
        notice = Notice.parse(answer["Body"].read())
        self._read[key] = (answer["ETag"], notice)
        return notice
