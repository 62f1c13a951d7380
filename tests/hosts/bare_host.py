"""Hosts with the unmodified base image, for tests that turn them into Kubernetes nodes."""

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from localcloud.hosts.layers import Disk
from localcloud.images.root import AMIS
from localcloud.instance import LocalCloud
from localcloud.tools.build import ensure_tool
from localcloud.tools.catalogue import KUBEADM, KUBECTL, KUBELET
from testkit.aws_clients import REGION
from testkit.waiting import wait_until
from tests.hosts.cluster import find_leftovers
from tests.local_aws.ec2_world import make_world

PROVISIONERS = "/opt/amis/provisioners"
PREPARE = f"{PROVISIONERS}/prepare-kubernetes-node.sh"
PROGRAMS = "/opt/kubernetes"
CONFIG = "/etc/gpumpi/kubeadm.yaml"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
OWN_NETWORK = """[Unit]
Description=Writable settings of the host's own network; systemd-nspawn mounts them read-only
DefaultDependencies=no
Before=systemd-sysctl.service
[Service]
Type=oneshot
ExecStart=mount --bind /proc/sys/net /proc/sys/net
ExecStart=mount -o remount,bind,rw /proc/sys/net
[Install]
WantedBy=sysinit.target
"""
OF_THIS_MACHINE = frozenset({"kernel: cgroup v2"})
"""Checks whose result depends on the machine that runs the local cloud, not on the host's preparation."""


@dataclass(frozen=True)
class BareHost:
    """An instance of a local cloud in which tests run commands as root."""

    cloud: LocalCloud
    name: str
    address: str

    @property
    def disk(self) -> Disk:
        return Disk(self.cloud.folder / "hosts" / "disks" / self.name)

    @property
    def root(self) -> Path:
        """The running instance's root file system."""
        return self.disk.root

    def run(self, *command: str, seconds: float = 300.0, **settings: str) -> "subprocess.CompletedProcess[str]":
        init = self._find_init()
        if init is None:
            return subprocess.CompletedProcess(list(command), 255, "", f"{self.name} does not run")
        spaces = ["-m", "-u", "-i", "-n", "-p", "-r", "-w"]
        variables = [f"{name}={value}" for name, value in {"PATH": PATH, "HOME": "/root", **settings}.items()]
        inside = ["nsenter", "-t", str(init.pid), *spaces, "--", "env", "-i", *variables, "timeout", str(seconds), *command]
        return subprocess.run(inside, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)

    def run_checked(self, *command: str, seconds: float = 300.0, **settings: str) -> str:
        done = self.run(*command, seconds=seconds, **settings)
        assert done.returncode == 0, f"{command}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
        return done.stdout

    def prepare(self) -> set[str]:
        """Run the whole preparation script and return the items that the script reports as missing."""
        done = self.run(PREPARE, KUBERNETES_FOLDER=PROGRAMS)
        missing = self._parse_missing(done)
        assert done.returncode in (0, 1), done.stderr
        return missing

    def check(self) -> set[str]:
        """Return the items that `--check` reports as missing."""
        return self._parse_missing(self.run(PREPARE, "--check"))

    def wait_until_up(self) -> None:
        wait_until(lambda: self.run("systemctl", "is-system-running").stdout.strip() in ("running", "degraded"))

    def reboot(self) -> None:
        before = self._find_init()
        self.run("systemctl", "reboot")
        wait_until(lambda: self._find_init() not in (None, before))
        self.wait_until_up()

    def _parse_missing(self, done: "subprocess.CompletedProcess[str]") -> set[str]:
        """Return the missing items that a report lists, without the suggested fixes."""
        assert "ok       kernel: overlay" in done.stdout, done.stdout[-3000:] + done.stderr[-3000:]
        missing = {line.removeprefix("missing  ") for line in done.stdout.splitlines() if line.startswith("missing")}
        assert bool(missing) == bool(done.returncode), done.stdout
        return {line.rpartition(": ")[0] for line in missing} - OF_THIS_MACHINE

    def _find_init(self) -> psutil.Process | None:
        """Return the host's init process (PID 1), which is the child of systemd-nspawn."""
        for process in psutil.process_iter(["cmdline"]):
            if f"--machine={self.name}" in (process.info["cmdline"] or ()):
                with suppress(psutil.NoSuchProcess):  # the process has exited in the meantime
                    for child in process.children():
                        if child.name() == "systemd":
                            return child
        return None


@contextmanager
def start_bare_hosts(folder: Path, count: int) -> Iterator[Sequence[BareHost]]:
    """Start hosts in a separate local cloud, with amis/, kubeadm, kubelet and kubectl on their disks. After the test,
    check for leftovers on this machine.
    """
    cloud, names = LocalCloud(folder / "cloud"), list[str]()
    cloud.start(print, hosts=True)
    try:
        launched = make_world(cloud.clients(REGION)).run(InstanceType="c5.large", MinCount=count, MaxCount=count)
        hosts = [BareHost(cloud, instance["InstanceId"], instance["PrivateIpAddress"]) for instance in launched]
        names += [host.name for host in hosts]
        for host in hosts:
            host.wait_until_up()
            (host.root / "etc/systemd/system/own-network.service").write_text(OWN_NETWORK)
            host.run_checked("systemctl", "enable", "--now", "own-network.service")
            shutil.copytree(AMIS, host.root / "opt/amis")
            programs = host.root / PROGRAMS.removeprefix("/")
            programs.mkdir()
            for tool in (KUBEADM, KUBECTL, KUBELET):
                shutil.copy2(ensure_tool(tool, print), programs)
        yield hosts
    finally:
        cloud.stop()
    assert find_leftovers(cloud, *names) == []
