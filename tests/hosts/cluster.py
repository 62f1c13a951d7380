"""An EC2 cluster created with boto3 in a local cloud with hosts. The cluster has a head node, workers, a key bucket and a shared
file system.
"""

import base64
import os
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infra.boot import ec2_node
from infra.boot.ec2_node import ClusterInfo, Mount, NodeRole
from infra.components import iam as policies
from infra.components.iam import Account
from infra.naming import LOGIN_USER, Naming
from localcloud.hosts.realizer import AMIS, build_namespace_prefix
from localcloud.instance import LocalCloud
from localcloud.machine import network
from testkit.aws_clients import REGION
from testkit.waiting import wait_until
from tests.local_aws.ec2_world import TRUST, make_world

ROOT = Path(__file__).parents[2]
STACK, USER, HOOK = "hosts", LOGIN_USER, ec2_node.HOOK
GROUP = Naming(STACK).workers
BUCKET = f"{Naming(STACK).name('keys')}-0a1b2c3"
"""Bucket name with a suffix like the ones that Pulumi generates, because `scripts/cluster` searches for this pattern.
"""
ACCOUNT = "123456789012"
SLOTS = 2
LIMIT_SECONDS = 600.0
ALLREDUCE = (
    "from mpi4py import MPI; import socket; c = MPI.COMM_WORLD; "
    "print(socket.gethostname(), c.size, c.allreduce(c.rank + 1), flush=True)"
)


@dataclass
class Ssh:
    """SSH logins through Session Manager, as on AWS. One connection per host stays open."""

    cloud: LocalCloud
    folder: Path
    environment: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.environment = {**self.cloud.process_environment(), "AWS_DEFAULT_REGION": REGION}
        self.key = self.folder / "key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "person", "-f", self.key], check=True)

    @property
    def public_key(self) -> str:
        return self.key.with_suffix(".pub").read_text().strip()

    def __call__(self, instance_id: str, command: str, seconds: float = 60.0) -> "subprocess.CompletedProcess[str]":
        inside = f"timeout {seconds:.0f} sh -c {shlex.quote(command)}"
        whole = [*self._build_options(instance_id), f"{USER}@{instance_id}", inside]
        return subprocess.run(
            ["ssh", *whole], env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )

    def close_connection(self, instance_id: str) -> None:
        command = ["ssh", "-O", "exit", *self._build_options(instance_id), instance_id]
        subprocess.run(command, env=self.environment, capture_output=True, check=False)

    def _build_options(self, instance_id: str) -> list[str]:
        proxy = f"aws ssm start-session --target {instance_id} --document-name AWS-StartSSHSession --parameters portNumber=22"
        options = {
            "BatchMode": "yes",
            "ConnectTimeout": "120",
            "ControlMaster": "auto",
            "ControlPath": f"{self.folder}/%h",
            "ControlPersist": "60",
            "IdentitiesOnly": "yes",
            "LogLevel": "ERROR",
            "ProxyCommand": proxy,
            "StrictHostKeyChecking": "no",
            "UserKnownHostsFile": "/dev/null",
        }
        return ["-i", str(self.key), *(part for name, value in options.items() for part in ("-o", f"{name}={value}"))]


@dataclass
class HandMade:
    """An EC2 cluster without a Pulumi stack, with methods that read its state from AWS and from the hosts."""

    cloud: LocalCloud
    ssh: Ssh
    openmpi: str = "4"
    role_ids: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.client = self.cloud.clients(REGION)
        self.network = make_world(self.client)
        self.ec2, self.groups = self.client("ec2"), self.client("autoscaling")
        self.client("s3").create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
        for role in ("master", "worker"):
            self.role_ids[role] = self._make_role(role)
        self.file_system, self.access_point = self._make_file_system()
        self.master = self.run(TagSpecifications=_build_tag_specifications({"gpumpi:stack": STACK, "gpumpi:role": "master"}))
        self._make_group()

    def run(self, **changes: Any) -> str:
        """Start an instance with a head node's user data and return its id."""
        instances = self.network.run(**{**self._build_launch_request("master"), "InstanceType": "c5.large", **changes})
        return str(instances[0]["InstanceId"])

    def scale(self, count: int) -> None:
        self.groups.set_desired_capacity(AutoScalingGroupName=GROUP, DesiredCapacity=count)

    def workers(self) -> dict[str, str]:
        """Return the workers' lifecycle states, keyed by instance id."""
        return {item["InstanceId"]: item["LifecycleState"] for item in self._list_members()}

    def list_in_service_workers(self) -> list[str]:
        return sorted(name for name, state in self.workers().items() if state == "InService")

    def address(self, instance_id: str) -> str:
        return str(self.network.describe_instances(instance_id)[0]["PrivateIpAddress"])

    def state(self, instance_id: str) -> str:
        return str(self.network.describe_instances(instance_id)[0]["State"]["Name"])

    def read_console(self, instance_id: str) -> str:
        return str(self.ec2.get_console_output(InstanceId=instance_id).get("Output", ""))

    def read_hostfile(self, instance_id: str) -> list[str]:
        return self.ssh(instance_id, "cat /etc/gpumpi/hostfile").stdout.splitlines()

    def await_workers(self, *excluded: str) -> list[str]:
        """Wait until exactly two workers are InService, neither is in `excluded`, and the head node's hostfile lists
        these two. Return the workers' instance ids.
        """

        def list_ready() -> list[str]:
            in_service = self.list_in_service_workers()
            if len(in_service) != 2 or set(in_service) & set(excluded):
                return []
            expected_lines = sorted(f"{self.address(worker)} slots={SLOTS}" for worker in in_service)
            return in_service if sorted(self.read_hostfile(self.master)) == expected_lines else []

        return list(wait_until(list_ready))

    def run_mpirun(self, instance_id: str) -> "subprocess.CompletedProcess[str]":
        """Run four ranks on two hosts with the default hostfile, which the join service writes."""
        return self.ssh(instance_id, f"mpirun -n 4 -N 2 python3 -c {shlex.quote(ALLREDUCE)}")

    def user_data(self, role: NodeRole, *, then: str = "", **changes: Any) -> str:
        """Return a node's user data. `changes` override entries of the cluster file; the script `then` runs before the
        node joins.
        """
        facts = ClusterInfo(STACK, REGION, BUCKET, USER, GROUP, self.role_ids["master"], self.role_ids["worker"])
        content = ec2_node.build_cluster_file(
            facts, role, slots=0 if role == "master" else SLOTS, idle_slots=SLOTS, join_seconds=900
        )
        options = f"efs _netdev,tls,iam,accesspoint={self.access_point}"
        mount = Mount("/shared", f"{self.file_system}:/ /shared {options} 0 0")
        text = ec2_node.render_user_data({**content, **changes}, [self.ssh.public_key], [mount])
        start = "systemctl start gpumpi-join.service"
        assert text.count(start) == 1
        return text.replace(start, f"echo user data of a {role}\n{then}\n{start}")

    def create_template_version(self, user_data: str) -> str:
        """Create a new version of the workers' launch template with this user data; return its number."""
        data = {"UserData": base64.b64encode(user_data.encode()).decode()}
        response = self.ec2.create_launch_template_version(
            LaunchTemplateName="workers", SourceVersion="1", LaunchTemplateData=data
        )
        return str(response["LaunchTemplateVersion"]["VersionNumber"])

    def list_workers_of_version(self, version: str) -> list[str]:
        """Return the ids of the workers that were launched with a version of the launch template."""
        return [item["InstanceId"] for item in self._list_members() if item["LaunchTemplate"]["Version"] == version]

    def _list_members(self) -> list[dict[str, Any]]:
        (group,) = self.groups.describe_auto_scaling_groups(AutoScalingGroupNames=[GROUP])["AutoScalingGroups"]
        instances: list[dict[str, Any]] = group["Instances"]
        return instances

    def start_command(self, *words: str) -> "subprocess.Popen[str]":
        """Start `scripts/cluster VERB ...` for this cluster with the environment variables of a user."""
        file = self.ssh.folder / f"Pulumi.{STACK}.yaml"
        file.write_text(f"config:\n  aws:region: {REGION}\n  gpumpi:target: {{kind: ec2}}\n")
        verb, *rest = words
        options = ["-s", STACK, "--config-dir", str(self.ssh.folder)]
        identity = [] if verb == "hosts" else ["-i", str(self.ssh.key)]
        return subprocess.Popen(
            [sys.executable, str(ROOT / "scripts" / "cluster"), verb, *options, *identity, *rest],
            env=self.ssh.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run_command(self, *words: str, seconds: float = LIMIT_SECONDS) -> "subprocess.CompletedProcess[str]":
        """Run `scripts/cluster VERB ...` to completion."""
        with self.start_command(*words) as process:
            out, error = process.communicate(timeout=seconds)
        return subprocess.CompletedProcess(words, process.returncode, out, error)

    def _build_launch_request(self, role: NodeRole) -> dict[str, Any]:
        return {
            "ImageId": AMIS[self.openmpi].id(REGION),
            "IamInstanceProfile": {"Name": role},
            "UserData": self.user_data(role),
            "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 1},
        }

    def _make_role(self, name: str) -> str:
        iam = self.client("iam")
        role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=TRUST)["Role"]
        own = {
            "sessions": policies.allow_session_manager(),
            "keys": policies.allow_node_key_exchange(f"arn:aws:s3:::{BUCKET}"),
            "members": policies.allow_member_lookup(),
        }
        if name == "worker":
            own["join"] = policies.allow_join_completion(Account(ACCOUNT, REGION, "aws"), GROUP)
        for policy, document in own.items():
            iam.put_role_policy(RoleName=name, PolicyName=policy, PolicyDocument=policies.to_json(document))
        iam.create_instance_profile(InstanceProfileName=name)
        iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=name)
        return str(role["RoleId"])

    def _make_file_system(self) -> tuple[str, str]:
        efs = self.client("efs")
        self.ec2.authorize_security_group_ingress(
            GroupId=self.network.group,
            IpPermissions=[
                {"IpProtocol": "tcp", "FromPort": 2049, "ToPort": 2049, "UserIdGroupPairs": [{"GroupId": self.network.group}]}
            ],
        )
        file_system = efs.create_file_system(CreationToken=STACK, Encrypted=True)["FileSystemId"]
        wait_until(lambda: efs.describe_file_systems(FileSystemId=file_system)["FileSystems"][0]["LifeCycleState"] == "available")
        efs.create_mount_target(FileSystemId=file_system, SubnetId=self.network.subnets[0], SecurityGroups=[self.network.group])
        point = efs.create_access_point(
            ClientToken=STACK,
            FileSystemId=file_system,
            PosixUser={"Uid": 1000, "Gid": 1000},
            RootDirectory={"Path": "/data", "CreationInfo": {"OwnerUid": 1000, "OwnerGid": 1000, "Permissions": "0775"}},
        )["AccessPointId"]
        wait_until(
            lambda: efs.describe_mount_targets(FileSystemId=file_system)["MountTargets"][0]["LifeCycleState"] == "available"
        )
        return file_system, point

    def _make_group(self) -> None:
        launch = self._build_launch_request("worker")
        launch["UserData"] = base64.b64encode(launch["UserData"].encode()).decode()
        hook = {
            "LifecycleHookName": HOOK,
            "LifecycleTransition": "autoscaling:EC2_INSTANCE_LAUNCHING",
            "DefaultResult": "ABANDON",
            "HeartbeatTimeout": 600,
        }
        self.groups.create_auto_scaling_group(
            AutoScalingGroupName=GROUP,
            MinSize=0,
            MaxSize=4,
            DesiredCapacity=2,
            VPCZoneIdentifier=self.network.subnets[0],
            LaunchTemplate={
                "LaunchTemplateId": self.network.template("workers", InstanceType="c5.large", **launch),
                "Version": "$Latest",
            },
            LifecycleHookSpecificationList=[hook],
        )


def _build_tag_specifications(tags: dict[str, str]) -> list[dict[str, Any]]:
    return [{"ResourceType": "instance", "Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}]


def find_leftovers(cloud: LocalCloud, *instances: str) -> list[str]:
    """Return the leftovers of a local cloud on this machine: namespaces, cgroups, mounts, processes, files of these
    instances, and the cloud's folder.
    """
    folder = str(cloud.folder)
    mounts = [f"mount {line}" for line in Path("/proc/mounts").read_text().splitlines() if folder in line]
    pids = [pid for pid in Path("/proc").iterdir() if pid.name.isdigit() and pid.name != str(os.getpid())]
    processes = [f"process {pid}" for pid in pids if folder in _read_command_line(pid)]
    nspawn_hosts = {entry.name for entry in Path("/run/systemd/nspawn").glob("*/i-*")}
    traces = [f"trace of {name}" for name in sorted(nspawn_hosts & set(instances))]
    return [
        *list_namespaces(cloud),
        *list_cgroups(cloud),
        *mounts,
        *processes,
        *traces,
        *([folder] if cloud.folder.exists() else []),
    ]


def list_namespaces(cloud: LocalCloud) -> list[str]:
    prefix = build_namespace_prefix(cloud.folder / "hosts")
    return sorted(path.name for path in network.RUN.glob(f"{prefix}*")) if network.RUN.is_dir() else []


def list_cgroups(cloud: LocalCloud) -> list[str]:
    """Return the cgroups of the cloud's hosts, in cgroup v1 and v2."""
    prefix = build_namespace_prefix(cloud.folder / "hosts")
    return sorted({path.name for pattern in (f"{prefix}*", f"*/{prefix}*") for path in Path("/sys/fs/cgroup").glob(pattern)})


def _read_command_line(process: Path) -> str:
    try:
        return (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
