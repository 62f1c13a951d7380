"""Emulate a VPC for hosts: a network namespace with a bridge, DHCP, DNS, IMDS, the local AWS, and egress.

`<folder>/<vpc id>/` contains the ledger, logs, and the leases and host files of the DHCP and DNS server.
"""

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from ipaddress import IPv4Interface, IPv4Network
from pathlib import Path

from localcloud.aws.listening import Offer, Serve
from localcloud.hosts.hardware import PROXY_PORT
from localcloud.hosts.metadata import Credentials, Machine
from localcloud.hosts.metadata_server import MetadataServer
from localcloud.hosts.proxy import Proxy
from localcloud.kubernetes.addresses import AWS_ADDRESS, AWS_PORT, METADATA_ADDRESS
from localcloud.machine import network
from localcloud.machine.ledger import Ledger
from localcloud.machine.supervisor import Supervisor

START_SECONDS = 10.0
MOUNTS = ("efs/mounts", "fsx/mounts")
"""Control API paths that the mount helpers on hosts, which emulate amazon-efs-utils and the Lustre client, call."""


@dataclass(frozen=True)
class Serving:
    """Services of the local AWS that a VPC makes available to its hosts."""

    aws: Serve
    lend: Callable[[Machine], Credentials]
    """Function that returns credentials for an instance's role."""
    control_token: str = field(repr=False)
    """Token with which root on a host can call the offered paths of the control API."""


class Vpc:
    """Network and services of one VPC."""

    def __init__(self, cidr: IPv4Network, region: str, folder: Path, namespace: str, dnsmasq: Path, serving: Serving) -> None:
        self.cidr, self.region, self.namespace = cidr, region, namespace
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.ledger = Ledger(folder / "ledger")
        self.supervisor = Supervisor(folder / "logs", self.ledger, namespace, lambda: None)
        self._dnsmasq, self._serving = dnsmasq, serving
        self._machines: dict[str, Machine] = {}
        self._lock = threading.Lock()
        self._closing: list[Callable[[], object]] = []

    def start(self) -> None:
        """Create the network and start all services. Raises StartError or OSError."""
        self.ledger.add("namespace", self.namespace)
        network.create_namespace(self.namespace)
        own = [IPv4Interface((address, self.cidr.prefixlen)) for address in (self.cidr[1], self.cidr[2])]
        shared = [IPv4Interface((address, 32)) for address in (AWS_ADDRESS, METADATA_ADDRESS)]
        network.make_bridge(self.namespace, [*own, *shared])
        metadata = MetadataServer(self._open_listener(str(METADATA_ADDRESS), 80), self.find_machine, self._serving.lend)
        proxy = Proxy(self._open_listener(str(AWS_ADDRESS), PROXY_PORT))
        offer = Offer(MOUNTS, self._serving.control_token)
        self._closing = [metadata.close, proxy.close, self._serving.aws(self._open_listener(str(AWS_ADDRESS), AWS_PORT), offer)]
        self._write_host_files()
        self._start_dnsmasq()

    def stop(self) -> None:
        """Remove the network, its services and any remaining hosts."""
        self.supervisor.close()
        for close in self._closing:
            close()
        self.ledger.clean_up()

    def add(self, machine: Machine) -> None:
        """Add a host to the DHCP server, the DNS server and IMDS."""
        with self._lock:
            self._machines[machine.address] = machine
            self._write_host_files()
        self._reload_dnsmasq()

    def remove(self, machine: Machine) -> None:
        """Remove the host and its DHCP lease. dnsmasq does not release the address by itself, so edit the lease
        file."""
        with self._lock:
            self._machines.pop(machine.address, None)
            self._write_host_files()
            if self._machines:
                self.supervisor.stop("dnsmasq")
                leases = self.folder / "leases"
                if leases.exists():
                    _replace_file(leases, (line for line in leases.read_text().splitlines() if machine.mac not in line.split()))
                self._start_dnsmasq()

    def find_machine(self, address: str) -> Machine | None:
        with self._lock:
            return self._machines.get(address)

    def _open_listener(self, address: str, port: int) -> socket.socket:
        return network.listen(self.namespace, address, port)

    def _write_host_files(self) -> None:
        """Rewrite dnsmasq's host files. The caller must hold the lock, except while the VPC starts."""
        machines = sorted(self._machines.values(), key=lambda host: host.address)
        _replace_file(
            self.folder / "dhcp-hosts", (f"{host.mac},{host.address},{host.hostname.split('.')[0]}" for host in machines)
        )
        _replace_file(self.folder / "dns-hosts", (f"{host.address} {host.hostname}" for host in machines))

    def _start_dnsmasq(self) -> None:
        """Start dnsmasq as the VPC's DHCP server and resolver. The resolver's address is the base of the VPC CIDR plus
        two. dnsmasq resolves only names in the VPC; the proxy resolves all other names."""
        domain = f"{self.region}.compute.internal"
        options = [
            "--no-daemon",
            "--conf-file=/dev/null",
            "--no-resolv",
            "--no-hosts",
            f"--interface={network.BRIDGE}",
            "--except-interface=lo",
            "--bind-interfaces",
            f"--domain={domain}",
            "--local=/#/",
            f"--dhcp-range={self.cidr[0]},static,{self.cidr.netmask},12h",
            f"--dhcp-option=option:router,{self.cidr[1]}",
            f"--dhcp-option=option:dns-server,{self.cidr[2]}",
            f"--dhcp-hostsfile={self.folder / 'dhcp-hosts'}",
            f"--addn-hosts={self.folder / 'dns-hosts'}",
            f"--dhcp-leasefile={self.folder / 'leases'}",
            # Hosts with the same AMI send the same DHCP client id, so identify hosts by MAC address, as EC2 does.
            "--dhcp-ignore-clid",
            "--user=root",
        ]
        self.supervisor.start("dnsmasq", [self._dnsmasq, *options])
        self.supervisor.await_ready("dnsmasq", self._is_dns_answering, START_SECONDS)

    def _is_dns_answering(self) -> bool:
        try:
            network.connect(self.namespace, str(self.cidr[2]), 53, timeout=1.0).close()
        except OSError:
            return False
        return True

    def _reload_dnsmasq(self) -> None:
        for server in self.supervisor.list_running_servers():
            if server.name == "dnsmasq":
                os.kill(server.pid, signal.SIGHUP)


def _replace_file(file: Path, lines: Iterable[str]) -> None:
    part = file.with_name(f".{file.name}")
    part.write_text("".join(f"{line}\n" for line in lines))
    part.replace(file)
