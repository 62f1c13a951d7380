"""A real node: the namespaces, containerd, kubelet and kube-proxy of an EC2 instance."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from ipaddress import IPv4Address
from pathlib import Path

import psutil
import yaml

from localcloud.kubernetes.addresses import AWS_ADDRESS, REGISTRY_PORT
from localcloud.kubernetes.nodes import (
    containerd,
    filesystem,
    gpus,
    hardware,
    kernel_log,
    kube_proxy,
    kubelet,
    logind,
    pod_network,
)
from localcloud.kubernetes.nodes.links import NodeNetwork, Wiring, build_node_namespace_name
from localcloud.kubernetes.nodes.logind import Logind
from localcloud.kubernetes.nodes.machine import Machine
from localcloud.kubernetes.nodes.programs import Programs
from localcloud.kubernetes.running import RunningCluster
from localcloud.machine import network
from localcloud.machine.cgroups import Cgroups
from localcloud.processes import StartError

START_SECONDS = 60.0
DEVICES_FILE = gpus.FOLDER / "devices.json"
"""File that the emulator of the EFA device plugin (localcloud/tools/device-plugin) reads."""


class Node:
    """A real node. A node can be started only once. `start` and `stop` each take several seconds."""

    def __init__(
        self,
        cluster: RunningCluster,
        machine: Machine,
        number: int,
        *,
        programs: Programs,
        wiring: Wiring,
        is_over: Callable[[], bool],
    ) -> None:
        """`start` gives up once `is_over` returns true, because the node is then no longer needed."""
        if cluster.namespace is None:
            raise ValueError("a real node needs a cluster with a network namespace")
        self.machine = machine
        self._cluster, self._programs, self._wiring, self._is_over = cluster, programs, wiring, is_over
        self._folder: Path = cluster.folder / "nodes" / machine.id
        self._cgroup = f"{cluster.namespace}-{machine.id}"
        self._cgroups = Cgroups()
        self._logind: Logind | None = None
        namespace, pods = build_node_namespace_name(cluster.namespace, number), cluster.addresses.get_node_pod_cidr(number)
        self.place = NodeNetwork(namespace, IPv4Address(machine.address), pods)

    @property
    def title(self) -> str:
        """Short form of the node's name, used for log and file names."""
        return self.machine.name.split(".")[0]

    @property
    def daemons(self) -> dict[str, str]:
        """Supervisor names of the node's daemons, keyed by kind."""
        return {kind: f"{kind}-{self.title}" for kind in ("machine", "containerd", "kubelet", "kube-proxy")}

    @property
    def own(self) -> Path:
        """Folder with the node's /etc and /var."""
        return self._folder / "own"

    @property
    def kernel_log(self) -> Path:
        return self.own / kernel_log.FILE

    def start(self) -> None:
        """Start the node and wait until its daemons run. Raises StartError or OSError; call `stop` to clean up."""
        self._folder.mkdir(parents=True)
        self._cluster.ledger.add("namespace", self.place.namespace)
        self._wiring.connect(self.place)
        self._make_cgroup()
        self._write_files()
        first = self._start_init()
        self._logind = Logind(Path(f"/proc/{first.pid}/root{logind.SOCKET}"))
        self._start_daemon("containerd", [self._programs.containerd, "--config", self._folder / "containerd.toml"])
        self._wait_for_daemon("containerd", self._has_containerd_socket)
        self._start_daemon("kubelet", [self._programs.kubelet, *self._write_kubelet_files()])
        self._start_daemon("kube-proxy", [self._programs.kube_proxy, f"--config={self._write_kube_proxy_file()}", "--v=2"])
        self._wait_for_daemon("kubelet", lambda: self._is_answering(10248))
        self._wait_for_daemon("kube-proxy", lambda: self._is_answering(10256))

    def shut_down(self, is_over: Callable[[], bool]) -> None:
        """Let the kubelet terminate the node's pods, as when EC2 terminates an instance. The caller must then call
        `stop`."""
        if self._logind is not None and self.find_process("kubelet") is not None:
            self._logind.shut_down(is_over)

    def stop(self) -> None:
        """Stop the node's processes and remove its resources, as far as they exist."""
        supervisor = self._cluster.supervisor
        first = self.find_process("machine")
        if self._logind is not None:
            self._logind.stop()
        for name in self.daemons.values():
            supervisor.stop_supervising(name)
        if first is not None:
            with suppress(psutil.NoSuchProcess):
                first.kill()  # the kernel then kills all processes in its PID namespace
        for name in self.daemons.values():
            supervisor.stop(name)
        self._wiring.disconnect(self.place)
        self._cluster.ledger.remove("namespace", self.place.namespace)
        self._cgroups.remove(self._cgroup)
        for folder in self._cgroups.list_folders(self._cgroup):
            self._cluster.ledger.remove("cgroup", folder)
        shutil.rmtree(self._folder, ignore_errors=True)

    def stop_kubelet(self) -> None:
        """Stop the kubelet until `start_kubelet` is called. This is not a crash, so `local start` does not restart
        it."""
        self._cluster.supervisor.stop(self.daemons["kubelet"])

    def start_kubelet(self) -> None:
        """Start a stopped kubelet. Do nothing if the kubelet is running."""
        if self.find_process("kubelet") is None:
            self._cluster.supervisor.restart(self.daemons["kubelet"])

    def set_link(self, *, up: bool) -> None:
        """Connect or disconnect the node's network link."""
        self._wiring.set_link(self.place, up=up)

    def find_process(self, kind: str) -> psutil.Process | None:
        """Return the running process of one of the node's daemons."""
        name = self.daemons[kind]
        server = next((server for server in self._cluster.supervisor.list_running_servers() if server.name == name), None)
        try:
            entered = server.find_process() if server is not None else None
            # The supervisor starts nsenter or unshare, and the daemon is the child of that process, in the node's PID namespace.
            return next(iter(entered.children()), None) if entered is not None else None
        except psutil.NoSuchProcess:
            return None

    def _make_cgroup(self) -> None:
        for folder in self._cgroups.list_folders(self._cgroup):
            self._cluster.ledger.add("cgroup", folder)
        self._cgroups.create(self._cgroup)

    def _write_files(self) -> None:
        folder, cluster, machine = self._folder, self._cluster, self.machine
        own = self.own
        name_server = str(cluster.addresses.dns)
        filesystem.write_node_files(own, machine.name, [machine.address], name_server)
        filesystem.write_machine_id(own, hashlib.md5(machine.id.encode(), usedforsecurity=False).hexdigest())
        (own / "etc" / "cni" / "net.d" / "10-pods.conflist").write_text(pod_network.build_cni_config(self.place.pods))
        devices = own / DEVICES_FILE
        devices.parent.mkdir(parents=True)
        devices.write_text(json.dumps(machine.devices) + "\n")
        gpus.write_gpu_files(machine, devices.parent)
        gpus.share_with_exporters(own)
        kernel_log.create_log(own)
        containerd.write_registries(folder / "registries", f"http://{AWS_ADDRESS}:{REGISTRY_PORT}")
        settings = containerd.build_config(
            registries=folder / "registries", network_plugins=self._programs.network_plugins, runc=self._programs.runc
        )
        (folder / "containerd.toml").write_text(settings)
        self._write_boot_script(own)

    def _write_kubelet_files(self) -> list[str]:
        """Write the kubelet's files and return its flags."""
        cluster, machine = self._cluster, self.machine
        certificate = cluster.pki.issue(
            f"system:node:{machine.name}",
            organizations=("system:nodes",),
            names=(machine.name,),
            addresses=(machine.address,),
            file=self.daemons["kubelet"],
        )
        settings = kubelet.config(
            machine,
            certificates=kubelet.Certificates(cluster.pki.certificate.file, certificate.file, certificate.key),
            dns=str(cluster.addresses.dns),
            cgroup=f"/{self._cgroup}",
            cpus=os.cpu_count() or 1,
            name_servers=Path("/etc/resolv.conf"),
        )
        file = self._folder / "kubelet.yaml"
        file.write_text(yaml.safe_dump(settings, sort_keys=False))
        kubeconfig = cluster.write_kubeconfig(certificate, self.daemons["kubelet"])
        return kubelet.build_flags(machine, config_file=file, kubeconfig=kubeconfig)

    def _write_kube_proxy_file(self) -> Path:
        name, cluster = self.daemons["kube-proxy"], self._cluster
        kubeconfig = cluster.write_kubeconfig(cluster.pki.issue("system:kube-proxy", file=name), name)
        file = self._folder / "kube-proxy.yaml"
        settings = kube_proxy.build_config(self.machine.name, kubeconfig, cluster.addresses.pods)
        file.write_text(yaml.safe_dump(settings, sort_keys=False))
        return file

    def _write_boot_script(self, own: Path) -> None:
        folder = self._folder
        cpus = Path("/sys/devices/system/cpu/online").read_text().strip()
        binds = hardware.write_fake_files(self.machine, cpus, folder / "hardware")
        binds += filesystem.write_kernel_settings(folder / "kernel")
        script = filesystem.build_boot_script(
            folder=folder,
            own=own,
            root=filesystem.read_machine_root(),
            binds=binds,
            visible=(self._cluster.folder, *self._programs.folders),
            hostname=self.machine.name,
        )
        (folder / "boot.sh").write_text(script)

    def _start_init(self) -> psutil.Process:
        """Start the node's PID 1 and return it."""
        # When PID 1 exits, the kernel kills all processes on the node, including orphans.
        namespaces = ["--mount", "--propagation=private", "--pid", "--fork", "--kill-child=SIGKILL", "--uts", "--ipc"]
        command = ["unshare", *namespaces, "--", "/bin/sh", str(self._folder / "boot.sh")]
        self._cluster.supervisor.start(self.daemons["machine"], command, namespace=self.place.namespace)
        self._wait_for_daemon("machine", (self._folder / "booted").exists)
        return self._get_init_process()

    def _get_init_process(self) -> psutil.Process:
        first = self.find_process("machine")
        if first is None:
            raise ProcessLookupError(f"PID 1 of node {self.machine.name} is not running")
        return first

    def _start_daemon(self, kind: str, command: list[str | Path]) -> None:
        first = self._get_init_process()
        namespaces = ["--mount", "--pid", "--net", "--uts", "--ipc"]
        self._cluster.supervisor.start(
            self.daemons[kind],
            ["nsenter", f"--target={first.pid}", *namespaces, "--", *command],
            outside=True,
            environment={"PATH": self._programs.search_path},
        )

    def await_ready(self) -> None:
        """Wait until Kubernetes reports the node as Ready. Raises StartError."""
        path = f"/api/v1/nodes/{self.machine.name}"

        def is_ready() -> bool:
            node = self._cluster.api.find(path)
            conditions = node["status"].get("conditions", ()) if node else ()
            return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)

        self._wait_for_daemon("kubelet", is_ready)

    def _wait_for_daemon(self, kind: str, check: Callable[[], bool]) -> None:
        self._cluster.supervisor.await_ready(self.daemons[kind], lambda: self._is_over() or check(), START_SECONDS)
        if self._is_over():
            raise StartError(f"node {self.machine.name} is no longer needed")

    def _has_containerd_socket(self) -> bool:
        first = self.find_process("machine")
        return first is not None and Path(f"/proc/{first.pid}/root{containerd.SOCKET}").exists()

    def _is_answering(self, port: int) -> bool:
        """True if the port accepts connections on the node's loopback interface."""
        try:
            network.connect(self.place.namespace, "127.0.0.1", port, 1.0).close()
        except OSError:
            return False
        return True
