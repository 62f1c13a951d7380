"""A local host: a systemd-nspawn container with an overlay root and a network interface on its VPC's bridge.

It runs in a user namespace, so that root on the host is an unprivileged user of this machine. A privileged host has the
capabilities of root on this machine instead.
"""

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
from localcloud.machine import network, user_namespaces
from localcloud.machine.cgroups import Cgroups
from localcloud.machine.ledger import build_process_name, remove_cgroup, remove_leftover

POWER_OFF = signal.SIGRTMIN + 4
"""Signal that makes systemd power off: https://www.freedesktop.org/software/systemd/man/latest/systemd.html#Signals"""
POWER_OFF_SECONDS = 15.0
RUN = Path("/run/systemd/nspawn")
CONNECT_SECONDS = 10.0
INTERFACE = "eth0"
INTERFACE_MTU = 9001
"""MTU of jumbo frames in a VPC: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/network_mtu.html"""
_START_CONTAINER = """
mkdir -p "$1"
mount --rbind /sys/fs/cgroup "$1"
mount -t sysfs -o ro sysfs /sys
mount --rbind "$1" /sys/fs/cgroup
shift
exec "$@"
"""
"""Script that runs systemd-nspawn in the network namespace with the host's interface, which systemd-nspawn moves to the
container. Its /sys must list this interface, and be read-only: otherwise, systemd-nspawn waits for udev. `$1`: folder to
mount the cgroups at in the meantime."""


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
        is_privileged: bool,
        on_end: Callable[[int], None] = lambda code: None,
    ) -> None:
        """`lower`: layers below the host's own changes, top first. `on_end`: called with the exit code if the host
        shuts down by itself."""
        self.vpc, self.machine, self.disk, self.lower = vpc, machine, disk, list(lower)
        self._is_privileged = is_privileged
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
        if self._is_privileged:
            network.mount_overlay(self.disk.root, self.disk.build_mount_options(self.lower))
        else:
            self._mount_for_user_namespace()
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
        init = self.init()
        if init is None:
            raise ConnectionRefusedError(f"{self.name} is not running")
        return network.connect_from_process(init.pid, "127.0.0.1", port, timeout=CONNECT_SECONDS)

    def run(self, command: Sequence[str], seconds: float = 60.0) -> "subprocess.CompletedProcess[str]":
        """Run a command on the host as root, for tests and debugging. Users connect with SSH instead."""
        init = self.init()
        if init is None:
            return subprocess.CompletedProcess(list(command), 255, "", f"{self.name} is not running")
        inside = [*build_enter_command(init.pid), "timeout", str(seconds), *command]
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

    def _mount_for_user_namespace(self) -> None:
        """Mount the root, and the file systems, with owners that are valid in the user namespace. The host's own changes
        and the layers of AMIs that hosts created have such owners on disk."""
        foreign = [layer for layer in self.lower if not layer.is_relative_to(self.disk.folder)]
        mapped = {self.disk.folder / "mapped" / str(number): layer for number, layer in enumerate(foreign)}
        mount_points = {layer: target for target, layer in mapped.items()}
        for target in (*mapped, self._mapped_file_systems):
            self.vpc.ledger.add("mount", target)
        user_namespaces.mount_with_mapped_ids({**mapped, self._mapped_file_systems: self._file_systems})
        for folder in (self.disk.upper, self.disk.work_folder):
            os.chown(folder, user_namespaces.FIRST_ID, user_namespaces.FIRST_ID)
        options = self.disk.build_mount_options([mount_points.get(layer, layer) for layer in self.lower])
        network.mount_overlay(self.disk.root, options)
        for target in mapped:  # the overlay has its own references
            self._unmount(target)

    @property
    def _mapped_file_systems(self) -> Path:
        return self.disk.folder / "file-systems"

    def _unmount(self, path: Path) -> None:
        network.unmount(path)
        self.vpc.ledger.remove("mount", path)

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
        namespace = f"--net={network.build_namespace_path(self.namespace)}"
        ids = [f"--private-users={user_namespaces.FIRST_ID}:{user_namespaces.ID_COUNT}", "--private-users-ownership=off"]
        return [
            *("nsenter", namespace, "--", "unshare", "--mount", "--propagation=slave"),
            *("sh", "-ec", _START_CONTAINER, "sh", str(self.disk.folder / "cgroups")),
            self._nspawn,
            "--quiet",
            f"--directory={self.disk.root}",
            "--capability=all",
            *([] if self._is_privileged else ids),
            "--register=no",
            "--keep-unit",
            "--resolv-conf=off",
            "--timezone=off",
            "--link-journal=no",
            f"--machine={self.name}",
            f"--network-interface={INTERFACE}",
            f"--bind={self._file_systems if self._is_privileged else self._mapped_file_systems}:{FILE_SYSTEMS}",
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
                peer = {"ifname": INTERFACE, "net_ns_fd": descriptor, "address": self.machine.mac}
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
        self._unmount(self.disk.root)
        if not self._is_privileged:
            self._unmount(self._mapped_file_systems)
        network.remove_namespace(self.namespace)
        self.vpc.ledger.remove("namespace", self.namespace)

    def _remove_link(self) -> None:
        """Remove the network link immediately. Otherwise, the kernel would keep it until the last process in the
        namespace exits."""
        from pyroute2 import IPRoute

        with IPRoute() as route:
            for index in route.link_lookup(ifname=self._link):
                route.link("del", index=index)


def build_enter_command(pid: int) -> list[str]:
    """Return the start of a command line that runs a command as root in the namespaces of a host's process."""
    return ["nsenter", f"--target={pid}", "--all", "--setuid=0", "--setgid=0", "--root", "--wd", "--"]
