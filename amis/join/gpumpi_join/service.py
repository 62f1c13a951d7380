"""Main loop: publish the notice, find members, verify their notices, write SSH's files, then complete the launch."""

import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpumpi_join import machine, ssh_files
from gpumpi_join.bucket import Bucket, build_own_s3_prefix, find_contradiction
from gpumpi_join.cluster_file import MASTER, ClusterFile
from gpumpi_join.giving_up import WAITING, complete_lifecycle_action, read_lifecycle_state
from gpumpi_join.members import Member, find_members
from gpumpi_join.notice import BadNotice, Notice
from gpumpi_join.ssh_files import Node

log = logging.getLogger("gpumpi-join")

EVERY_SECONDS = 10.0
"""Well below a minute, the time within which all nodes must learn of a change."""
WHILE_JOINING_SECONDS = 2.0


@dataclass(frozen=True)
class Paths:
    """Files that the service writes; tests use their own."""

    authorized_keys: Path = Path("/etc/gpumpi/authorized_keys")
    known_hosts: Path = Path("/etc/ssh/ssh_known_hosts")
    hosts: Path = Path("/etc/hosts")
    hostfile: Path = Path("/etc/gpumpi/hostfile")
    state: Path = Path("/var/lib/gpumpi/nodes.json")


@dataclass(frozen=True)
class Clients:
    """boto3 clients."""

    s3: Any
    ec2: Any
    autoscaling: Any


class Service:
    """One node's part in the key exchange."""

    def __init__(
        self,
        cluster: ClusterFile,
        clients: Clients,
        *,
        instance_id: str,
        identity: str,
        notice: Notice,
        paths: Paths = Paths(),
        answers: Callable[[Notice], bool] = lambda notice: machine.has_sshd_with_keys(notice.address, notice.host_keys),
        obstacle: Callable[[], str] | None = None,
        on_delay: Callable[[str], None] = lambda obstacle: None,
    ) -> None:
        """`obstacle` returns what keeps the head node from starting ranks on this node. `on_delay` receives the obstacle after
        each round without joining.
        """
        self.cluster = cluster
        self.clients = clients
        self.instance_id = instance_id
        self.folder = build_own_s3_prefix(identity)
        self.notice = notice
        self.paths = paths
        self.joined = cluster.is_master
        self._answers = answers
        self._current_obstacle = obstacle or self._find_head_node_obstacle
        self._on_delay = on_delay
        self._obstacle = ""
        self._bucket = Bucket(clients.s3, cluster.bucket)
        self._nodes: dict[str, Node] = _load_nodes(paths.state)
        self._reachable: dict[str, Notice] = {}
        """Maps an instance ID to a notice. The node's sshd has proved that it holds the host keys of this notice."""
        self._rejected: dict[str, str] = {}

    def step(self) -> None:
        """Run one round. Raises AWS's errors; a failed round does not trust any new nodes."""
        members = find_members(self.cluster, self.clients.autoscaling, self.clients.ec2)
        try:
            if self._bucket.publish(self.folder, self.notice):
                log.info("published %s", self.folder)
            trusted, rejected = self._bucket.read_notices(self.cluster, members)
        except Exception:
            self._update_nodes(members, {})  # remove nodes that have left, even if S3 fails
            raise
        self._log_rejected(rejected)
        self._update_nodes(members, trusted)
        if not self.joined:
            self._try_to_join()

    def run(self, wait: Callable[[float], object] = time.sleep) -> None:
        """Run rounds until the machine stops."""
        while True:
            try:
                self.step()
            except Exception as error:  # keep the files and retry: S3 is down, or a new permission is not effective yet
                log.warning("round failed, trying again: %s", error)
                self._obstacle = f"the last round failed: {error}"
            if not self.joined:
                self._on_delay(self._obstacle)
            wait(EVERY_SECONDS if self.joined else WHILE_JOINING_SECONDS)

    def _update_nodes(self, members: dict[str, Member], trusted: dict[str, Notice]) -> None:
        self._nodes = self._merge_nodes(members, trusted)
        self._write_files()

    def _merge_nodes(self, members: dict[str, Member], trusted: dict[str, Notice]) -> dict[str, Node]:
        """Return the members that have or had a trusted notice: nodes are remembered after their notices expire."""
        nodes: dict[str, Node] = {}
        for id, member in members.items():
            previous = self._nodes.get(id)
            remembered = previous.notice if previous and not find_contradiction(previous.notice, member) else None
            notice = trusted.get(id) or remembered
            if notice is not None:
                nodes[id] = Node(id, member.role == MASTER, notice, member.addresses)
        for id in sorted(self._nodes.keys() - nodes.keys()):
            log.info("%s has left", id)
        for id in sorted(nodes.keys() - self._nodes.keys()):
            log.info("new node: %s at %s", id, nodes[id].notice.address)
        return nodes

    def _write_files(self) -> None:
        """Write the keys of all nodes. The hostfile lists only nodes whose sshd has answered."""
        nodes = list(self._nodes.values())
        ssh_files.write_atomically(self.paths.authorized_keys, ssh_files.render_authorized_keys(nodes))
        ssh_files.write_atomically(self.paths.known_hosts, ssh_files.render_known_hosts(nodes))
        hosts = self.paths.hosts.read_text() if self.paths.hosts.exists() else ""
        ssh_files.write_atomically(self.paths.hosts, ssh_files.insert_block(hosts, ssh_files.render_hosts(nodes)))
        if ssh_files.write_atomically(self.paths.hostfile, ssh_files.render_hostfile(self._list_reachable_nodes(nodes))):
            log.info("hostfile: %s", self.paths.hostfile.read_text().replace("\n", "; ") or "empty")
        _save_nodes(self.paths.state, nodes)

    def _list_reachable_nodes(self, nodes: list[Node]) -> list[Node]:
        self._reachable = {id: notice for id, notice in self._reachable.items() if id in self._nodes}
        for node in nodes:
            if self._reachable.get(node.instance_id) != node.notice and self._answers(node.notice):
                self._reachable[node.instance_id] = node.notice
        return [node for node in nodes if self._reachable.get(node.instance_id) == node.notice]

    def _try_to_join(self) -> None:
        """Put the worker in service once it can log in to the head node and is in the head node's hostfile."""
        has_head_node = any(node.is_master for node in self._nodes.values())
        obstacle = self._current_obstacle() if has_head_node else "there is no head node with trusted keys yet"
        if obstacle:
            if obstacle != self._obstacle:
                log.info("not joined yet: %s", obstacle)
            self._obstacle = obstacle
            return
        if read_lifecycle_state(self.clients.autoscaling, self.instance_id) == WAITING:
            self.complete_launch("CONTINUE")
        self.joined = True
        log.info("joined")

    def complete_launch(self, result: str) -> None:
        complete_lifecycle_action(self.clients.autoscaling, self.cluster, self.instance_id, result)

    def _find_head_node_obstacle(self) -> str:
        return machine.find_head_node_obstacle(self.cluster.user, self.notice.address, self.paths.hostfile)

    def _log_rejected(self, rejected: dict[str, str]) -> None:
        for key, reason in rejected.items():
            if self._rejected.get(key) != reason:
                log.warning("rejected %s: %s", key, reason)
        self._rejected = rejected


def _load_nodes(file: Path) -> dict[str, Node]:
    """Load the nodes that were trusted before a restart; none if the file cannot be read."""
    try:
        stored = json.loads(file.read_text())
        return {id: Node(id, node["master"], Notice.parse(node["notice"].encode()), ()) for id, node in stored.items()}
    except (OSError, ValueError, KeyError, TypeError, BadNotice):
        return {}


def _save_nodes(file: Path, nodes: list[Node]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    text = {node.instance_id: {"master": node.is_master, "notice": node.notice.to_json()} for node in nodes}
    ssh_files.write_atomically(file, json.dumps(text, sort_keys=True), 0o600)


def build_own_notice(cluster: ClusterFile, address: str) -> Notice:
    """Build this machine's notice. Creates the user's key if the user has none."""
    return Notice(
        hostname=machine.read_hostname(),
        address=address,
        slots=cluster.slots,
        idle_slots=cluster.idle_slots,
        host_keys=(machine.read_host_key(),),
        user_key=machine.ensure_user_key(cluster.user),
    )
