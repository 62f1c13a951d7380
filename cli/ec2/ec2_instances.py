"""Query AWS about an EC2 cluster, given the name of its stack. Needs no Pulumi state."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cli.aws_queries import query_aws, read_pages, require_region
from cli.ec2.failed_launches import MOST_ACTIVITIES
from cli.errors import CommandError, NotFound
from cli.exit_codes import USAGE
from infra.config import stack_file
from infra.facts.clients import Clients
from infra.naming import ROLE_TAG, STACK_TAG, Naming
from infra.settings.storage import NewEfs
from infra.settings.targets import Ec2Target

NODES: Final = "nodes/"
HEAD_NODE: Final = "master"
"""Value of the role tag on the head node."""
ALIVE: Final = ("pending", "running")


@dataclass(frozen=True)
class Ec2Node:
    """A node of the cluster, as EC2 describes its instance."""

    id: str
    role: str
    address: str
    instance_type: str
    state: str
    """For a worker, the lifecycle state in the Auto Scaling group (`InService` means that it has joined). For the head
    node, the EC2 instance state."""
    launched: str
    profile_arn: str = ""

    @property
    def is_head_node(self) -> bool:
        return self.role == HEAD_NODE


@dataclass(frozen=True)
class WorkerGroup:
    """The workers' Auto Scaling group."""

    name: str
    minimum: int
    desired: int
    maximum: int


@dataclass(frozen=True)
class BootLog:
    """Text that a node uploaded: the log of a failed boot, or the reason why it has not joined yet."""

    instance_id: str
    written: str
    text: str


class DeployedEc2Cluster:
    """One deployed EC2 cluster, as AWS reports it. All methods may raise CommandError."""

    def __init__(self, stack: str, folder: Path) -> None:
        raw = stack_file.read_stack_file(stack_file.find_stack_file(stack, folder))
        if raw.target_kind != "ec2":
            raise CommandError(f"{stack} is not an EC2 cluster: target.kind is {raw.target_kind or None}, not ec2", USAGE)
        self.stack, self.region = raw.stack, require_region(raw)
        target: Any = raw.values["target"]
        self.user = str(target.get("user", Ec2Target(kind="ec2").user))
        self.shared = _get_mount_path(raw.values.get("storage"))
        self.naming = Naming(raw.stack)
        self._clients = Clients(raw.region)
        self._role_ids: dict[str, str] = {}
        self._bucket: str | None = None

    # --- instances -----------------------------------------------------------------------------------------------------

    def group(self) -> WorkerGroup:
        groups = self._describe_worker_groups()
        if not groups:
            fix = f"`pulumi up -s {self.stack}` creates it"
            raise NotFound(f"there is no cluster {self.naming.cluster} in {self.region}; {fix}")
        group = groups[0]
        return WorkerGroup(group["AutoScalingGroupName"], group["MinSize"], group["DesiredCapacity"], group["MaxSize"])

    def nodes(self) -> list[Ec2Node]:
        """Return the head node first, then the workers sorted by address."""
        states = {
            instance["InstanceId"]: instance["LifecycleState"]
            for group in self._describe_worker_groups()
            for instance in group["Instances"]
        }
        workers = self._describe_instances([{"Name": "instance-id", "Values": sorted(states)}]) if states else []
        head_nodes = [
            {"Name": f"tag:{STACK_TAG}", "Values": [self.stack]},
            {"Name": f"tag:{ROLE_TAG}", "Values": [HEAD_NODE]},
            {"Name": "instance-state-name", "Values": list(ALIVE)},
        ]
        # two head nodes may run while one replaces the other
        newest = sorted(self._describe_instances(head_nodes), key=lambda instance: str(instance["LaunchTime"]))[-1:]
        nodes = [_parse_node(instance, HEAD_NODE, instance["State"]["Name"]) for instance in newest]
        nodes += sorted(
            (_parse_node(instance, "worker", states[instance["InstanceId"]]) for instance in workers), key=_split_address
        )
        return nodes

    def head_node(self) -> Ec2Node:
        head_node = next((node for node in self.nodes() if node.is_head_node), None)
        if head_node is None:
            self.group()
            fix = f"`pulumi refresh -s {self.stack}` and `pulumi up -s {self.stack}` create another"
            raise NotFound(f"{self.naming.cluster} has no running head node; {fix}")
        return head_node

    def scale(self, size: int) -> None:
        autoscaling, name = self._clients.autoscaling, self.naming.workers
        self._query_aws(
            lambda: autoscaling.set_desired_capacity(AutoScalingGroupName=name, DesiredCapacity=size, HonorCooldown=False)
        )

    def activities(self) -> list[Mapping[str, Any]]:
        """Return the latest launches and terminations of workers, including failed ones, newest first."""
        describe, name = self._clients.autoscaling.describe_scaling_activities, self.naming.workers
        answer = self._query_aws(lambda: describe(AutoScalingGroupName=name, MaxRecords=MOST_ACTIVITIES))
        return list(answer["Activities"])

    def failed_launches(self) -> dict[str, str]:
        """Return the reason for each failed launch, keyed by activity ID."""
        failed = [activity for activity in self.activities() if activity["StatusCode"] == "Failed"]
        return {activity["ActivityId"]: activity.get("StatusMessage") or activity["Description"] for activity in failed}

    def _describe_worker_groups(self) -> list[Any]:
        name = self.naming.workers
        autoscaling = self._clients.autoscaling
        groups = self._query_aws(
            lambda: autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=[name])["AutoScalingGroups"]
        )
        return list(groups)

    def _describe_instances(self, filters: list[dict[str, Any]]) -> list[Any]:
        reservations = read_pages(self.region, self._clients.ec2, "describe_instances", "Reservations", Filters=filters)
        return [instance for reservation in reservations for instance in reservation["Instances"]]

    # --- key bucket ----------------------------------------------------------------------------------------------------

    def read_notice(self, node: Ec2Node) -> Mapping[str, Any] | None:
        """Return what a node published under its S3 prefix (address, keys and slots), where only that node may write;
        None if it has not published anything yet.
        """
        key = f"{NODES}{self._read_role_id(node)}:{node.id}/notice.json"
        text = self._read_object(key)
        if text is None:
            return None
        notice: Mapping[str, Any] = json.loads(text)
        return notice if notice.get("address") == node.address else None

    def read_boot_logs(self) -> Iterator[BootLog]:
        """Yield the logs of nodes that could not join, oldest first."""
        return self._read_uploads("boot.log")

    def read_waiting_reasons(self) -> Iterator[BootLog]:
        """Yield the reasons why nodes have not joined yet or were slow to join, oldest first."""
        return self._read_uploads("waiting.txt")

    def _read_uploads(self, name: str) -> Iterator[BootLog]:
        s3, bucket = self._clients.s3, self.bucket
        pages = self._query_aws(lambda: list(s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=NODES)))
        listed = [item for page in pages for item in page.get("Contents", ()) if item["Key"].endswith(f"/{name}")]
        for item in sorted(listed, key=lambda item: item["LastModified"]):
            text = self._read_object(item["Key"])
            if text is not None:
                instance = item["Key"].split("/")[1].partition(":")[2]
                yield BootLog(instance, f"{item['LastModified']:%Y-%m-%dT%H:%M:%SZ}", text.decode(errors="replace"))

    @property
    def bucket(self) -> str:
        if self._bucket is None:
            pattern = re.compile(rf"{re.escape(self.naming.name('keys'))}-[0-9a-f]{{7}}")  # Pulumi's suffix
            buckets = self._query_aws(self._clients.s3.list_buckets)["Buckets"]
            matching = [bucket for bucket in buckets if pattern.fullmatch(bucket["Name"])]
            if not matching:
                raise NotFound(f"{self.naming.cluster} has no key bucket in this account")
            self._bucket = str(max(matching, key=lambda bucket: bucket["CreationDate"])["Name"])
        return self._bucket

    def _read_object(self, key: str) -> bytes | None:
        s3, bucket = self._clients.s3, self.bucket

        def get() -> bytes | None:
            try:
                body: bytes = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
            except s3.exceptions.NoSuchKey:
                return None
            return body

        content: bytes | None = self._query_aws(get)
        return content

    def _read_role_id(self, node: Ec2Node) -> str:
        """Return the node's role ID. The bucket policy limits each instance's writes to its role ID and instance ID."""
        name = node.profile_arn.rpartition("/")[2]
        if name not in self._role_ids:
            iam = self._clients.iam
            profile = self._query_aws(lambda: iam.get_instance_profile(InstanceProfileName=name)["InstanceProfile"])
            self._role_ids[name] = profile["Roles"][0]["RoleId"]
        return self._role_ids[name]

    def _query_aws(self, question: Callable[[], Any]) -> Any:
        return query_aws(self.region, question)


def _get_mount_path(storage: object) -> str | None:
    """Return the mount path of the shared file system, or None if the stack has none."""
    efs = storage.get("efs", {}) if isinstance(storage, Mapping) else {}
    if efs == "none":
        return None
    default = NewEfs().mount_path
    return str(efs.get("mountPath", default)) if isinstance(efs, Mapping) else default


def _parse_node(described: Mapping[str, Any], role: str, state: str) -> Ec2Node:
    return Ec2Node(
        described["InstanceId"],
        role,
        described.get("PrivateIpAddress") or "",
        described["InstanceType"],
        state,
        f"{described['LaunchTime']:%Y-%m-%dT%H:%M:%SZ}",
        (described.get("IamInstanceProfile") or {}).get("Arn", ""),
    )


def _split_address(node: Ec2Node) -> list[int]:
    return [int(part) for part in node.address.split(".") if part]
