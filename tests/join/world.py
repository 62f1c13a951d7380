"""An EC2 cluster in an in-process AWS: head node, Auto Scaling group of workers, key bucket, and their IAM roles."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpumpi_join.cluster_file import MASTER, WORKER, ClusterFile
from gpumpi_join.giving_up import GivingUp
from gpumpi_join.notice import Notice
from gpumpi_join.service import Clients, Paths, Service

from infra.components import iam as policies
from infra.components.iam import Account
from testkit.aws_clients import REGION, Client
from tests.local_aws.ec2_world import find_eks_ami, make_world

ACCOUNT = Account("123456789012", REGION, "aws")
JOIN_SECONDS = 600
STACK, BUCKET, GROUP, HOOK = "mnist", "gpumpi-mnist-keys", "gpumpi-mnist-workers", "join"


def make_public_key(letter: str) -> str:
    """Return a fake SSH public key."""
    return "ssh-ed25519 " + "AAAAC3NzaC1lZDI1NTE5AAAAI" + letter * 43


@dataclass
class Host:
    """One instance with its join service."""

    instance_id: str
    address: str
    service: Service
    paths: Paths
    s3: Any
    """S3 client with the instance's own credentials."""
    folder: str

    def read(self, name: str) -> str:
        file: Path = getattr(self.paths, name)
        return file.read_text() if file.exists() else ""

    @property
    def hostfile(self) -> list[str]:
        return self.read("hostfile").splitlines()


@dataclass
class World:
    """The cluster's AWS resources and its hosts."""

    client: Client
    folder: Path
    role_ids: dict[str, str] = field(default_factory=dict)
    answering: Callable[[Notice], bool] = lambda notice: True
    hosts: dict[str, Host] = field(default_factory=dict)
    seconds: float = 0.0
    """Seconds since all hosts booted."""

    def __post_init__(self) -> None:
        self.network = make_world(self.client)
        self.client("s3").create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
        for role in (MASTER, WORKER, "stranger"):
            self.role_ids[role] = self._make_role(role)
        self._make_group()

    def start_head_node(self) -> Host:
        tags = [{"Key": "gpumpi:stack", "Value": STACK}, {"Key": "gpumpi:role", "Value": MASTER}]
        launched = self.network.run(TagSpecifications=[{"ResourceType": "instance", "Tags": tags}])[0]
        return self._make_host(MASTER, launched["InstanceId"], launched["PrivateIpAddress"], slots=0)

    def scale(self, count: int) -> list[Host]:
        """Set the size of the Auto Scaling group and return its hosts. New hosts have not joined yet."""
        self.client("autoscaling").set_desired_capacity(AutoScalingGroupName=GROUP, DesiredCapacity=count)
        return [self.hosts.get(id) or self._make_host(WORKER, id, self._get_address(id), slots=8) for id in self.list_states()]

    def start_outside_host(self, role: str = "stranger") -> Host:
        """Launch an instance in the same account, outside the group."""
        launched = self.network.run()[0]
        return self._make_host(role, launched["InstanceId"], launched["PrivateIpAddress"], slots=8, part=WORKER)

    def list_states(self) -> dict[str, str]:
        shown = self.client("autoscaling").describe_auto_scaling_groups(AutoScalingGroupNames=[GROUP])["AutoScalingGroups"][0]
        return {item["InstanceId"]: item["LifecycleState"] for item in shown["Instances"]}

    def run_two_rounds(self, *hosts: Host) -> None:
        """Run two rounds of all join services, so that the first services also read the notices of the last ones."""
        for _ in range(2):
            for host in hosts:
                host.service.step()

    def restart(self, host: Host) -> Service:
        """Return a new join service of the host, which loads the state of the old one."""
        old, identity = host.service, host.folder.split("/")[1]
        return Service(
            old.cluster,
            old.clients,
            instance_id=host.instance_id,
            identity=identity,
            notice=old.notice,
            paths=host.paths,
            answers=lambda notice: True,
        )

    def _is_in_hostfile(self, address: str) -> bool:
        return any(address in host.read("hostfile") for host in self.hosts.values() if host.service.joined)

    def _get_address(self, instance_id: str) -> str:
        return str(self.network.describe_instances(instance_id)[0]["PrivateIpAddress"])

    def _make_role(self, name: str) -> str:
        """Create a role with the program's node policies. Tests assume this role as an instance would."""
        trust = {
            "Version": "2012-10-17",
            "Statement": [{"Effect": "Allow", "Principal": {"AWS": ACCOUNT.root}, "Action": "sts:AssumeRole"}],
        }
        iam = self.client("iam")
        role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(trust))["Role"]
        own = {"keys": policies.allow_node_key_exchange(f"arn:aws:s3:::{BUCKET}"), "members": policies.allow_member_lookup()}
        if name == WORKER:
            own["join"] = policies.allow_join_completion(ACCOUNT, GROUP)
        for policy, document in own.items():
            iam.put_role_policy(RoleName=name, PolicyName=policy, PolicyDocument=policies.to_json(document))
        return str(role["RoleId"])

    def _make_group(self) -> None:
        hook = {
            "LifecycleHookName": HOOK,
            "LifecycleTransition": "autoscaling:EC2_INSTANCE_LAUNCHING",
            "DefaultResult": "ABANDON",
            "HeartbeatTimeout": 600,
        }
        self.client("autoscaling").create_auto_scaling_group(
            AutoScalingGroupName=GROUP,
            MinSize=0,
            MaxSize=16,
            DesiredCapacity=0,
            VPCZoneIdentifier=self.network.subnets[0],
            LaunchTemplate={"LaunchTemplateId": self.network.template(ImageId=find_eks_ami()), "Version": "$Latest"},
            LifecycleHookSpecificationList=[hook],
        )

    def _make_host(self, role: str, instance_id: str, address: str, *, slots: int, part: str | None = None) -> Host:
        keys = self.client("sts").assume_role(RoleArn=f"arn:aws:iam::{ACCOUNT.id}:role/{role}", RoleSessionName=instance_id)
        own = {
            "aws_access_key_id": keys["Credentials"]["AccessKeyId"],
            "aws_secret_access_key": keys["Credentials"]["SecretAccessKey"],
            "aws_session_token": keys["Credentials"]["SessionToken"],
        }
        identity = keys["AssumedRoleUser"]["AssumedRoleId"]
        here = self.folder / instance_id
        here.mkdir()
        names = ("authorized_keys", "known_hosts", "hosts", "hostfile", "state")
        paths = Paths(**{name: here / name for name in names})
        number = len(self.hosts)
        host_key, user_key = make_public_key(chr(ord("A") + number)), make_public_key(chr(ord("a") + number))
        name = self.network.describe_instances(instance_id)[0]["PrivateDnsName"].split(".")[0]
        notice = Notice(name, address, slots, idle_slots=2, host_keys=(host_key,), user_key=user_key)
        s3 = self.client("s3", **own)
        end = GivingUp(
            self._make_cluster_file(part or role),
            s3,
            self.client("autoscaling"),
            instance_id=instance_id,
            identity=identity,
            since=0.0,
            clock=lambda: self.seconds,
            logs=lambda: b"the logs\n",
        )
        service = Service(
            self._make_cluster_file(part or role),
            Clients(s3, self.client("ec2"), self.client("autoscaling")),
            instance_id=instance_id,
            identity=identity,
            notice=notice,
            paths=paths,
            answers=lambda notice: self.answering(notice),
            obstacle=lambda: "" if self._is_in_hostfile(address) else "the head node does not know this node",
            on_delay=end.give_up_if_due,
        )
        self.hosts[instance_id] = Host(instance_id, address, service, paths, s3, f"nodes/{identity}/")
        return self.hosts[instance_id]

    def _make_cluster_file(self, role: str) -> ClusterFile:
        return ClusterFile(
            stack=STACK,
            region=REGION,
            bucket=BUCKET,
            role=role,
            user="mpi",
            slots=0 if role == MASTER else 8,
            idle_slots=2,
            auto_scaling_group=GROUP,
            lifecycle_hook=HOOK,
            join_seconds=JOIN_SECONDS,
            master_role_id=self.role_ids[MASTER],
            worker_role_id=self.role_ids[WORKER],
        )
