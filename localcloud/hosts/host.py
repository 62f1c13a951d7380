"""A local host: a systemd-nspawn container with an overlay root, in a network namespace connected to its VPC's
bridge."""

import os
import shlex
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from localcloud.hosts.hardware import BOOT, FILE_SYSTEMS
from localcloud.hosts.layers import Disk
from localcloud.hosts.metadata import Machine
from localcloud.hosts.vpc import Vpc
from localcloud.machine import network
from localcloud.machine.cgroups import Cgroups
from localcloud.machine.ledger import build_process_name, remove_cgroup, remove_leftover

POWER_OFF = signal.SIGRTMIN + 4
"""Signal that makes systemd power off: https://www.freedesktop.org/software/systemd/man/latest/systemd.html#Signals"""
POWER_OFF_SECONDS = 15.0
RUN = Path("/run/systemd/nspawn")
CONNECT_SECONDS = 10.0
INTERFACE_MTU = 9001
"""MTU of jumbo frames in a VPC: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/network_mtu.html"""


class Host:
    """Container that emulates one EC2 instance."""

    def __init__(
        self,
        vpc: Vpc,
        machine: Machine,
        disk: Disk,
        lower: Sequence[Path],
        nspawn: Path,
        file_systems: Path,
        on_end: Callable[[int], None] = lambda code: None,
    ) -> None:
        """`lower`: layers below the host's own changes, top first. `on_end`: called with the exit code if the host
        shuts down by itself."""
        self.vpc, self.machine, self.disk, self.lower = vpc, machine, disk, list(lower)
        self._nspawn, self._file_systems, self._on_end = nspawn, file_systems, on_end
        self.name = machine.instance_id
        self.namespace = f"{vpc.namespace}-{machine.instance_id[2:]}"
        self._link = f"h{machine.instance_id[-12:]}"
        self._process: subprocess.Popen[bytes] | None = None
        self._recorded = ""
        self._traces: list[Path] = []
        self._is_ending = False

    def start(self) -> None:
        """Start the host. Return as soon as the host's first process runs, without waiting for the boot to finish."""
        self.vpc.add(self.machine)
        self._add_network_interface()
        self.disk.make()
        self.vpc.ledger.add("mount", self.disk.root)
        options = self.disk.build_mount_options(self.lower)
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, self.disk.root], check=True, capture_output=True)
        self._record_leftovers()
        self._create_cgroups()
        self._is_ending = False
        self._process = self._boot()
        threading.Thread(target=self._wait_for_exit, args=(self._process,), name=f"watch-{self.name}", daemon=True).start()

    def power_off(self, *, shuts_down: bool = True) -> None:
        """Shut the host down and keep its disk, as `StopInstances` does. Kill the host's processes if it does not shut
        down in time."""
        self._is_ending = True
        init = self.init()
        if init is not None and shuts_down:
            init.send_signal(POWER_OFF)
        self._wait_or_kill(POWER_OFF_SECONDS if init is not None and shuts_down else 0.0)
        self._release_resources()

    def terminate(self, *, shuts_down: bool = True) -> None:
        """Shut the host down and delete its disk, as `TerminateInstances` does."""
        self.power_off(shuts_down=shuts_down)
        self.disk.remove()
        self.vpc.remove(self.machine)

    def reboot(self) -> None:
        """Reboot the host. systemd-nspawn exits and the boot loop restarts it."""
        init = self.init()
        if init is not None:
            init.send_signal(signal.SIGINT)

    @property
    def is_on(self) -> bool:
        """Whether the host is powered on."""
        return self._process is not None and self._process.poll() is None

    def init(self) -> psutil.Process | None:
        """Return the host's systemd process, or None if it is not running."""
        if self._process is None or self._process.poll() is not None:
            return None
        try:
            managers = psutil.Process(self._process.pid).children()
            inits = [init for manager in managers for init in manager.children()]
        except psutil.NoSuchProcess:
            return None
        return inits[0] if inits else None

    @property
    def console_log(self) -> Path:
        return self.vpc.folder / "logs" / f"{self.name}.log"

    def read_console(self) -> bytes:
        """Return the host's console output since its first boot."""
        return self.console_log.read_bytes() if self.console_log.exists() else b""

    def connect(self, port: int) -> socket.socket:
        """Connect to a port from inside the host. As with connections from the SSM agent, security groups do not
        apply."""
        return network.connect(self.namespace, "127.0.0.1", port, timeout=CONNECT_SECONDS)

    def run(self, command: Sequence[str], seconds: float = 60.0) -> "subprocess.CompletedProcess[str]":
        """Run a command on the host as root, for tests and debugging. Users connect with SSH instead."""
        init = self.init()
        if init is None:
            return subprocess.CompletedProcess(list(command), 255, "", f"{self.name} is not running")
        spaces = ["-m", "-u", "-i", "-n", "-p", "-r", "-w"]
        inside = ["nsenter", "-t", str(init.pid), *spaces, "--", "timeout", str(seconds), *command]
        return subprocess.run(inside, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)

    def _boot(self) -> "subprocess.Popen[bytes]":
        """Run systemd-nspawn, and run it again whenever it exits with code 133: the host requests a reboot."""
        enter = "".join(f"echo $$ >{shlex.quote(str(group / 'cgroup.procs'))}; " for group in self._cgroups)
        loop = enter + 'while :; do "$@"; code=$?; [ $code = 133 ] || exit $code; done'
        with self.console_log.open("ab") as output:
            process = subprocess.Popen(
                ["sh", "-c", loop, "sh", *map(str, self._build_nspawn_command())],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._recorded = build_process_name(process.pid, psutil.Process(process.pid).create_time())
        self.vpc.ledger.add("process", self._recorded)
        return process

    def _create_cgroups(self) -> None:
        """Create the host's own cgroups. If hosts shared cgroups, each systemd would remove the cgroups of services on
        other hosts."""
        for group in self._cgroups:
            self.vpc.ledger.add("cgroup", group)
        for group in self._cgroups:
            group.mkdir(exist_ok=True)

    @property
    def _cgroups(self) -> list[Path]:
        """Return the host's cgroups in the cgroup hierarchies that systemd uses."""
        machine = Cgroups()
        return [
            path
            for path in machine.list_folders(self.namespace)
            if machine.is_unified or path.parent.name in ("systemd", "unified")
        ]

    def _record_leftovers(self) -> None:
        """Record the files that systemd-nspawn leaves behind when it is killed."""
        root = self.disk.root.stat()
        folders = [RUN / kind / self.name for kind in ("propagate", "unix-export")]
        self._traces = [*folders, RUN / "locks" / f"inode-{root.st_dev}:{root.st_ino}"]
        for trace in self._traces:
            self.vpc.ledger.add("trace", trace)

    def _wait_for_exit(self, process: "subprocess.Popen[bytes]") -> None:
        code = process.wait()
        if not self._is_ending:
            self._on_end(code)

    def _wait_or_kill(self, seconds: float) -> None:
        if self._process is None:
            return
        family = self._list_descendants()
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            for member in family:
                if member.is_running():
                    member.kill()
            self._process.wait()
            psutil.wait_procs(family, timeout=POWER_OFF_SECONDS)
        self.vpc.ledger.remove("process", self._recorded)
        self._process = None

    def _list_descendants(self) -> list[psutil.Process]:
        assert self._process is not None
        try:
            return psutil.Process(self._process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def _build_nspawn_command(self) -> list[str | Path]:
        return [
            self._nspawn,
            "--quiet",
            f"--directory={self.disk.root}",
            "--capability=all",
            "--register=no",
            "--keep-unit",
            "--resolv-conf=off",
            "--timezone=off",
            "--link-journal=no",
            f"--machine={self.name}",
            f"--network-namespace-path={network.build_namespace_path(self.namespace)}",
            f"--bind={self._file_systems}:{FILE_SYSTEMS}",
            "--console=read-only",
            f"--kill-signal={int(POWER_OFF)}",
            BOOT,
        ]

    def _add_network_interface(self) -> None:
        """Add a network interface with the instance's MAC address. The host's DHCP client configures it."""
        self.vpc.ledger.add("namespace", self.namespace)
        network.create_namespace(self.namespace)
        descriptor = os.open(network.build_namespace_path(self.namespace), os.O_RDONLY)

        def add_link() -> None:
            from pyroute2 import IPRoute  # slow to import

            with IPRoute() as route:
                peer = {"ifname": "eth0", "net_ns_fd": descriptor, "address": self.machine.mac}
                route.link("add", ifname=self._link, kind="veth", mtu=INTERFACE_MTU, peer={**peer, "mtu": INTERFACE_MTU})
                bridge = route.link_lookup(ifname=network.BRIDGE)[0]
                index = route.link_lookup(ifname=self._link)[0]
                route.link("set", index=index, master=bridge, state="up")

        try:
            network.run_in_namespace(self.vpc.namespace, add_link)
        finally:
            os.close(descriptor)

    def _release_resources(self) -> None:
        """Remove the host's network link, namespace, mounts, cgroups and leftover files."""
        for trace in self._traces:
            remove_leftover(trace)
            self.vpc.ledger.remove("trace", trace)
        self._traces = []
        for group in self._cgroups:
            remove_cgroup(group)
            self.vpc.ledger.remove("cgroup", group)
        network.run_in_namespace(self.vpc.namespace, self._remove_link)
        network.unmount(self.disk.root)
        self.vpc.ledger.remove("mount", self.disk.root)
        network.remove_namespace(self.namespace)
        self.vpc.ledger.remove("namespace", self.namespace)

    def _remove_link(self) -> None:
        """Remove the network link immediately. Otherwise, the kernel would keep it until the last process in the
        namespace exits."""
        from pyroute2 import IPRoute

        with IPRoute() as route:
            for index in route.link_lookup(ifname=self._link):
                route.link("del", index=index)
