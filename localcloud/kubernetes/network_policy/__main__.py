"""Network policy agent of one cluster; runs until SIGTERM: `python -m localcloud.kubernetes.network_policy --help`.

The agent runs in the cluster's network namespace and enters the namespaces of the nodes to replace their rules. On
SIGTERM, the agent removes all rules, as the agent on EKS does when network policies are disabled.
"""

import argparse
import logging
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

from localcloud.kubernetes.addresses import Addresses
from localcloud.kubernetes.client import Api
from localcloud.kubernetes.network_policy import nft, rules
from localcloud.kubernetes.network_policy.cache import Cache
from localcloud.kubernetes.network_policy.objects import (
    Pod,
    Service,
    create_pod_parser,
    parse_labels,
    parse_policy,
    parse_service,
)
from localcloud.kubernetes.network_policy.resolve import Isolation, World, resolve_isolations
from localcloud.kubernetes.nodes.links import build_node_namespace_name
from localcloud.kubernetes.pki import Certificate
from localcloud.machine import network

log = logging.getLogger(__name__)

SETTLE_SECONDS = 0.05
"""Time to wait after a change, because more changes usually follow immediately."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m localcloud.kubernetes.network_policy")
    parser.add_argument("--pki", type=Path, required=True, help="folder with ca.crt, admin.crt and admin.key")
    parser.add_argument("--namespace", required=True, help="network namespace of the cluster")
    parser.add_argument("--vpc", type=IPv4Network, required=True)
    parser.add_argument("--services", type=IPv4Network, required=True)
    parser.add_argument("--nft", type=Path, required=True, help="path of the program nft")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    addresses = Addresses(arguments.vpc, arguments.services)
    authority, own = (Certificate(arguments.pki / f"{name}.crt", arguments.pki / f"{name}.key") for name in ("ca", "admin"))
    agent = Agent(Api(addresses.api_server, None, authority, own), addresses, arguments.namespace, arguments.nft)
    signal.signal(signal.SIGTERM, lambda *_: agent.end())
    agent.run()
    return 0


class Agent:
    """Keeps the rules of all nodes of a cluster up to date."""

    def __init__(self, api: Api, addresses: Addresses, namespace: str, program: Path) -> None:
        self._addresses, self._namespace, self._nft = addresses, namespace, program
        self._changed, self._ending = threading.Event(), False
        parse = create_pod_parser((addresses.pods, addresses.vpc))
        self._pods: Cache[Pod] = Cache(api, "/api/v1/pods", parse, self._changed)
        self._services: Cache[Service] = Cache(api, "/api/v1/services", parse_service, self._changed)
        self._namespaces: Cache[Any] = Cache(api, "/api/v1/namespaces", parse_labels, self._changed)
        self._policies: Cache[Any] = Cache(api, "/apis/networking.k8s.io/v1/networkpolicies", parse_policy, self._changed)
        self._applied: dict[str, tuple[int, str]] = {}
        """Maps the name of each node's network namespace to the namespace's inode and rules. The inode shows whether
        the namespace was recreated."""

    def end(self) -> None:
        self._ending = True
        self._changed.set()

    def run(self) -> None:
        """Apply all changes until `end` is called, then remove all rules."""
        caches = (self._pods, self._services, self._namespaces, self._policies)
        for cache in caches:
            cache.start()
        while self._changed.wait() and not self._ending:
            time.sleep(SETTLE_SECONDS)
            self._changed.clear()
            if all(cache.is_complete.is_set() for cache in caches) and not self._ending:
                self._apply_rules(resolve_isolations(self._build_world()))
        for name in self._list_node_namespaces():
            nft.apply_rules(self._nft, name, rules.render_removal())

    def _build_world(self) -> World:
        dns_pod, dns_service = build_cluster_dns(self._addresses)
        return World(
            policies=list(self._policies.items().values()),
            pods=[*self._pods.items().values(), dns_pod],
            services=[*self._services.items().values(), dns_service],
            namespaces={name: labels for (_, name), labels in self._namespaces.items().items()},
        )

    def _apply_rules(self, isolations: dict[str, Isolation]) -> None:
        by_node: dict[str, dict[str, Isolation]] = defaultdict(dict)
        for address, isolation in isolations.items():
            number = self._addresses.find_node_number(IPv4Address(address))
            if number is not None:
                by_node[build_node_namespace_name(self._namespace, number)][address] = isolation
        for name in self._list_node_namespaces():
            self._apply_in_namespace(name, rules.render_rules(by_node.get(name, {})))

    def _apply_in_namespace(self, name: str, commands: str) -> None:
        inode = network.read_namespace_inode(name)
        if inode is not None and self._applied.get(name) != (inode, commands):
            nft.apply_rules(self._nft, name, commands)
            self._applied[name] = (inode, commands)
            log.info("%s: replaced the rules (%d lines)", name, commands.count("\n"))

    def _list_node_namespaces(self) -> Iterator[str]:
        return (path.name for path in network.RUN.glob(build_node_namespace_name(self._namespace, "*")))


def build_cluster_dns(addresses: Addresses) -> tuple[Pod, Service]:
    """Return CoreDNS's pod and service as they are on EKS. In the local cloud, CoreDNS is a process, and its service
    has no selector.
    """
    labels = {"k8s-app": "kube-dns"}
    ports = (("UDP", "dns", 53), ("TCP", "dns-tcp", 53))
    pod = Pod("kube-system", labels, str(addresses.router), ports)
    return pod, Service("kube-system", labels, str(addresses.dns), (("UDP", 53, 53), ("TCP", 53, 53)))


if __name__ == "__main__":
    sys.exit(main())
