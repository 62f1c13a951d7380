"""A plain EC2 cluster by its stack's name, from AWS's own answers; no Pulumi state is needed."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cli.exit_codes import NO_CLUSTER, NOT_FOUND, USAGE
from cli.launches import MOST_ACTIVITIES
from infra.config import stack_file
from infra.facts import FactsError
from infra.facts.clients import Clients, Denied, asked
from infra.naming import ROLE_TAG, STACK_TAG, Naming
from infra.settings.storage import Efs
from infra.settings.targets import Ec2Target

NODES: Final = "nodes/"
MASTER: Final = "master"
ALIVE: Final = ("pending", "running")


class Failed(Exception):
    """A verb cannot go on; the message is for the user."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Node:
    """An instance of the cluster, as AWS has it."""

    id: str
    role: str
    address: str
    instance_type: str
    state: str
    """Of a worker its lifecycle in the group (`InService`: it has joined), of the master EC2's."""
    launched: str
    profile_arn: str = ""

    @property
    def is_master(self) -> bool:
        return self.role == MASTER


@dataclass(frozen=True)
class Group:
    """The workers' auto scaling group."""

    name: str
    minimum: int
    desired: int
    maximum: int


@dataclass(frozen=True)
class BootLog:
    """What a node left that could not become a member."""

    instance_id: str
    written: str
    text: str


class PlainCluster:
    """Questions about one cluster. Raises Failed."""

    def __init__(self, stack: str, folder: Path) -> None:
        try:
            raw = stack_file.read(stack_file.find(stack, folder))
        except stack_file.NoSuchStack as error:
            raise Failed(str(error), NOT_FOUND) from None
        target = raw.values.get("target")
        target = target if isinstance(target, Mapping) else {}
        kind = target.get("kind")
        if not raw.region or kind != "ec2":
            reason = f"target.kind is {kind}, not ec2" if raw.region else "it names no region"
            raise Failed(f"{stack} is no plain EC2 cluster: {reason}", USAGE)
        self.stack, self.region = raw.stack, raw.region
        self.user = str(target.get("user", Ec2Target(kind="ec2").user))
        self.shared = _mount_path(raw.values.get("storage"))
        self.naming = Naming(raw.stack)
        self._clients = Clients(raw.region)
        self._role_ids: dict[str, str] = {}
        self._bucket: str | None = None

    # --- instances -----------------------------------------------------------------------------------------------------

    def group(self) -> Group:
        found = self._groups()
        if not found:
            way_out = f"`pulumi up -s {self.stack}` makes it"
            raise Failed(f"there is no cluster {self.naming.cluster} in {self.region}; {way_out}", NOT_FOUND)
        one = found[0]
        return Group(one["AutoScalingGroupName"], one["MinSize"], one["DesiredCapacity"], one["MaxSize"])

    def nodes(self) -> list[Node]:
        """The master first, then workers by address."""
        states = {one["InstanceId"]: one["LifecycleState"] for group in self._groups() for one in group["Instances"]}
        workers = self._described([{"Name": "instance-id", "Values": sorted(states)}]) if states else []
        masters = [
            {"Name": f"tag:{STACK_TAG}", "Values": [self.stack]},
            {"Name": f"tag:{ROLE_TAG}", "Values": [MASTER]},
            {"Name": "instance-state-name", "Values": list(ALIVE)},
        ]
        newest = sorted(self._described(masters), key=lambda one: str(one["LaunchTime"]))[-1:]  # while one replaces another
        found = [_node(one, MASTER, one["State"]["Name"]) for one in newest]
        found += sorted((_node(one, "worker", states[one["InstanceId"]]) for one in workers), key=_by_address)
        return found

    def master(self) -> Node:
        found = next((one for one in self.nodes() if one.is_master), None)
        if found is None:
            self.group()
            way_out = f"`pulumi refresh -s {self.stack}` and `pulumi up -s {self.stack}` make another"
            raise Failed(f"{self.naming.cluster} has no master that runs; {way_out}", NOT_FOUND)
        return found

    def scale(self, size: int) -> None:
        autoscaling, name = self._clients.autoscaling, self.naming.workers
        self._ask(lambda: autoscaling.set_desired_capacity(AutoScalingGroupName=name, DesiredCapacity=size, HonorCooldown=False))

    def activities(self) -> list[Mapping[str, Any]]:
        """What Auto Scaling did with the workers and could not do, the newest first."""
        describe, name = self._clients.autoscaling.describe_scaling_activities, self.naming.workers
        answer = self._ask(lambda: describe(AutoScalingGroupName=name, MaxRecords=MOST_ACTIVITIES))
        return list(answer["Activities"])

    def failed_launches(self) -> dict[str, str]:
        """By id: why Auto Scaling could not launch."""
        failed = [one for one in self.activities() if one["StatusCode"] == "Failed"]
        return {one["ActivityId"]: one.get("StatusMessage") or one["Description"] for one in failed}

    def _groups(self) -> list[Any]:
        name = self.naming.workers
        autoscaling = self._clients.autoscaling
        found = self._ask(lambda: autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=[name])["AutoScalingGroups"])
        return list(found)

    def _described(self, filters: list[dict[str, Any]]) -> list[Any]:
        pages = self._ask(lambda: list(self._clients.ec2.get_paginator("describe_instances").paginate(Filters=filters)))
        return [one for page in pages for reservation in page["Reservations"] for one in reservation["Instances"]]

    # --- key bucket ----------------------------------------------------------------------------------------------------

    def notice(self, node: Node) -> Mapping[str, Any] | None:
        """What a node says of itself, from where nobody else may write; None while it has not said it."""
        key = f"{NODES}{self._role_id(node)}:{node.id}/notice.json"
        text = self._object(key)
        if text is None:
            return None
        notice: Mapping[str, Any] = json.loads(text)
        return notice if notice.get("address") == node.address else None

    def boot_logs(self) -> Iterator[BootLog]:
        """Of nodes that failed, the oldest first."""
        s3, bucket = self._clients.s3, self.bucket
        pages = self._ask(lambda: list(s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=NODES)))
        listed = [one for page in pages for one in page.get("Contents", ()) if one["Key"].endswith("/boot.log")]
        for one in sorted(listed, key=lambda one: one["LastModified"]):
            text = self._object(one["Key"])
            if text is not None:
                instance = one["Key"].split("/")[1].partition(":")[2]
                yield BootLog(instance, f"{one['LastModified']:%Y-%m-%dT%H:%M:%SZ}", text.decode(errors="replace"))

    @property
    def bucket(self) -> str:
        if self._bucket is None:
            pattern = re.compile(rf"{re.escape(self.naming.name('keys'))}-[0-9a-f]{{7}}")  # Pulumi's suffix
            buckets = self._ask(self._clients.s3.list_buckets)["Buckets"]
            found = [one for one in buckets if pattern.fullmatch(one["Name"])]
            if not found:
                raise Failed(f"{self.naming.cluster} has no key bucket in this account", NOT_FOUND)
            self._bucket = str(max(found, key=lambda one: one["CreationDate"])["Name"])
        return self._bucket

    def _object(self, key: str) -> bytes | None:
        s3, bucket = self._clients.s3, self.bucket

        def get() -> bytes | None:
            try:
                body: bytes = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
            except s3.exceptions.NoSuchKey:
                return None
            return body

        found: bytes | None = self._ask(get)
        return found

    def _role_id(self, node: Node) -> str:
        """The role of the node's profile: the bucket's policy lets its instances write below their own names only."""
        name = node.profile_arn.rpartition("/")[2]
        if name not in self._role_ids:
            iam = self._clients.iam
            profile = self._ask(lambda: iam.get_instance_profile(InstanceProfileName=name)["InstanceProfile"])
            self._role_ids[name] = profile["Roles"][0]["RoleId"]
        return self._role_ids[name]

    def _ask(self, question: Any) -> Any:
        try:
            return asked(self.region, question)
        except Denied as denied:
            raise Failed(f"you may not call {denied}; ask for that permission", NO_CLUSTER) from None
        except FactsError as error:
            raise Failed(str(error), NO_CLUSTER) from None


def _mount_path(storage: object) -> str | None:
    """Where nodes see the shared file system; None where there is none."""
    efs = storage.get("efs", {}) if isinstance(storage, Mapping) else {}
    if efs == "none":
        return None
    usual = Efs().mount_path
    return str(efs.get("mountPath", usual)) if isinstance(efs, Mapping) else usual


def _node(described: Mapping[str, Any], role: str, state: str) -> Node:
    return Node(
        described["InstanceId"],
        role,
        described.get("PrivateIpAddress") or "",
        described["InstanceType"],
        state,
        f"{described['LaunchTime']:%Y-%m-%dT%H:%M:%SZ}",
        (described.get("IamInstanceProfile") or {}).get("Arn", ""),
    )


def _by_address(node: Node) -> list[int]:
    return [int(part) for part in node.address.split(".") if part]
