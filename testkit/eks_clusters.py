"""Create EKS clusters with boto3 in a local cloud, and search for the leftovers of deleted clusters on this machine."""

import json
import os
import re
import subprocess
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from localcloud.instance import LocalCloud
from localcloud.kubernetes.client import Api
from localcloud.kubernetes.cluster import build_namespace_name
from localcloud.kubernetes.pki import Certificate
from localcloud.kubernetes.state import ClusterState
from localcloud.machine import network
from localcloud.processes import Server
from testkit.eks_world import World
from testkit.waiting import wait_while

REGION = "us-west-2"
PUBLIC = {"endpointPublicAccess": True, "endpointPrivateAccess": True, "publicAccessCidrs": ["203.0.113.7/32"]}
PRIVATE = {"endpointPublicAccess": False, "endpointPrivateAccess": True}
LIMIT_SECONDS = 240.0


@dataclass
class Account:
    """The AWS account of one local cloud, with the prerequisites of EKS clusters."""

    cloud: LocalCloud
    world: World = field(init=False)

    def __post_init__(self) -> None:
        self.client = self.cloud.clients(REGION)
        self.world = World(self.client, REGION)

    @cached_property
    def eks(self) -> Any:
        return self.client("eks")

    def start_creation(self, name: str, version: str | None = None, **access: Any) -> "Running":
        """Start creating a cluster; return it while its status is CREATING."""
        vpc = {"subnetIds": self.world.subnets, **(access or PUBLIC)}
        self.eks.create_cluster(
            name=name,
            roleArn=self.world.cluster_role,
            resourcesVpcConfig=vpc,
            kubernetesNetworkConfig={"serviceIpv4Cidr": "172.20.0.0/16"},
            accessConfig={"authenticationMode": "API"},
            **({"version": version} if version else {}),
        )
        return Running(self, name)

    def create(self, name: str, version: str | None = None, **access: Any) -> "Running":
        """Create a cluster; return it once its status is no longer CREATING."""
        cluster = self.start_creation(name, version, **access)
        cluster.wait_until_settled("CREATING")
        return cluster


@dataclass
class Running:
    """An EKS cluster."""

    account: Account
    name: str

    @property
    def cloud(self) -> LocalCloud:
        return self.account.cloud

    def describe(self) -> dict[str, Any]:
        record: dict[str, Any] = self.account.eks.describe_cluster(name=self.name)["cluster"]
        return record

    def wait_until_settled(self, passing: str) -> dict[str, Any]:
        """Wait until the cluster's status is no longer `passing`; return the cluster's description."""
        return wait_while(self.describe, lambda record: record["status"] == passing)

    def update(self, operation: str, **what: Any) -> str:
        """Run an update to completion; return its final status."""
        begun = getattr(self.account.eks, operation)(name=self.name, **what)["update"]
        describe = self.account.eks.describe_update
        last = wait_while(
            lambda: describe(name=self.name, updateId=begun["id"])["update"], lambda update: update["status"] == "InProgress"
        )
        return str(last["status"])

    def delete(self) -> None:
        """Delete the cluster and wait until EKS no longer lists it."""
        self.account.eks.delete_cluster(name=self.name)
        missing = self.account.eks.exceptions.ResourceNotFoundException
        try:
            while True:
                self.wait_until_settled("DELETING")
        except missing:
            return

    @property
    def state(self) -> ClusterState:
        return next(state for state in self.cloud.clusters() if state.name == self.name)

    def find_process(self, name: str) -> Server:
        return next(process for process in self.state.processes if process.name == name)

    @property
    def folder(self) -> Path:
        return next((self.cloud.folder / "kubernetes").glob(f"*-{self.name}"))

    @property
    def api(self) -> Api:
        """Return an API client of group system:masters that connects from inside the cluster's network namespace."""
        pki = self.folder / "pki"
        admin, authority = (Certificate(pki / f"{name}.crt", pki / f"{name}.key") for name in ("admin", "ca"))
        return Api("https://10.0.0.1:443", self.state.namespace, authority, admin)

    def write_kubeconfig(self, file: Path) -> Path:
        """Write a kubeconfig with `aws eks update-kubeconfig`; its tokens come from `aws eks get-token`."""
        command = ["aws", "eks", "update-kubeconfig", "--name", self.name, "--kubeconfig", str(file), "--region", REGION]
        subprocess.run(command, env=self.cloud.process_environment(), check=True, capture_output=True, text=True)
        return file

    def kubectl(self, kubeconfig: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run kubectl as the cluster's creator."""
        environment = self.cloud.process_environment() | {"KUBECONFIG": str(kubeconfig)}
        command = ["kubectl", *arguments]
        return subprocess.run(command, env=environment, check=False, capture_output=True, text=True, timeout=LIMIT_SECONDS)


def find_leftovers(cloud: LocalCloud) -> list[str]:
    """Return the leftovers of a cloud's clusters on this machine: namespaces, processes, mounts, cgroups."""
    mark = build_namespace_name(cloud.folder / "kubernetes", 0).removesuffix("-0")
    leftovers = [f"namespace {path.name}" for path in network.RUN.glob(f"{mark}*")] if network.RUN.exists() else []
    leftovers += [
        f"mount {line}"
        for line in Path("/proc/self/mountinfo").read_text().splitlines()
        if mark in line or str(cloud.folder) in line
    ]
    leftovers += [f"control group {path}" for path in find_cgroups(mark)]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
        if re.search(rf"{re.escape(str(cloud.folder))}\b", words) and process.name != str(os.getpid()):
            leftovers.append(f"process {process.name}: {words[:120]}")
    return leftovers


def find_cgroups(mark: str) -> list[str]:
    """Return the paths of cgroups whose names contain `mark`. os.walk skips cgroups that disappear during the walk."""
    folders = (Path(path) / name for path, names, _ in os.walk("/sys/fs/cgroup") for name in names)
    return [str(folder) for folder in folders if mark in folder.name]


def load_json(file: Path) -> Any:
    return json.loads(file.read_text())
