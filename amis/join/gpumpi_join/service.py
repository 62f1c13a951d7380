"""The loop: publish, see who belongs here, believe, write, and tell the autoscaling group when this node has joined."""

import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpumpi_join import machine, ssh_files
from gpumpi_join.bucket import Bucket, own_folder
from gpumpi_join.cluster_file import MASTER, ClusterFile
from gpumpi_join.giving_up import WAITING, complete_join, lifecycle_state
from gpumpi_join.members import Member, find
from gpumpi_join.notice import BadNotice, Notice
from gpumpi_join.ssh_files import Node

log = logging.getLogger("gpumpi-join")

EVERY_SECONDS = 10.0
"""Well under the minute in which nodes that come and go must be known everywhere."""
WHILE_JOINING_SECONDS = 2.0


@dataclass(frozen=True)
class Paths:
    """Where things are; tests have their own."""

    authorized_keys: Path = Path("/etc/gpumpi/authorized_keys")
    known_hosts: Path = Path("/etc/ssh/ssh_known_hosts")
    hosts: Path = Path("/etc/hosts")
    hostfile: Path = Path("/etc/gpumpi/hostfile")
    state: Path = Path("/var/lib/gpumpi/nodes.json")


@dataclass(frozen=True)
class Clients:
    """boto3's."""

    s3: Any
    ec2: Any
    autoscaling: Any


class Service:
    """One node's side of the exchange."""

    def __init__(
        self,
        cluster: ClusterFile,
        clients: Clients,
        *,
        instance_id: str,
        identity: str,
        notice: Notice,
        paths: Paths = Paths(),
        answers: Callable[[Notice], bool] = lambda notice: machine.sshd_answers(notice.address, notice.host_keys),
        trouble: Callable[[], str] | None = None,
        on_delay: Callable[[str], None] = lambda obstacle: None,
    ) -> None:
        """`trouble`: what keeps the master from sending ranks here. `on_delay` hears it after each round without joining."""
        self.cluster = cluster
        self.clients = clients
        self.instance_id = instance_id
        self.folder = own_folder(identity)
        self.notice = notice
        self.paths = paths
        self.joined = cluster.is_master
        self._answers = answers
        self._trouble = trouble or self._ask_master
        self._on_delay = on_delay
        self._obstacle = ""
        self._bucket = Bucket(clients.s3, cluster.bucket)
        self._nodes: dict[str, Node] = _load(paths.state)
        self._reachable: dict[str, Notice] = {}
        """Whose sshd has answered with the keys of this notice."""
        self._refused: dict[str, str] = {}

    def step(self) -> None:
        """One round. Raises what AWS answers when it can't be asked: then nobody new is believed."""
        members = find(self.cluster, self.clients.autoscaling, self.clients.ec2)
        try:
            if self._bucket.publish(self.folder, self.notice):
                log.info("published %s", self.folder)
            believed, refused = self._bucket.notices(self.cluster, members)
        except Exception:
            self._take(members, {})  # those that left are dropped whatever S3 does
            raise
        self._tell_refused(refused)
        self._take(members, believed)
        if not self.joined:
            self._join()

    def run(self, wait: Callable[[float], object] = time.sleep) -> None:
        """Until the machine goes."""
        while True:
            try:
                self.step()
            except Exception as error:  # S3 away, a permission not there yet: the files stay, the next round tries again
                log.warning("this round failed: %s", error)
                self._obstacle = f"a round failed: {error}"
            if not self.joined:
                self._on_delay(self._obstacle)
            wait(EVERY_SECONDS if self.joined else WHILE_JOINING_SECONDS)

    def _take(self, members: dict[str, Member], believed: dict[str, Notice]) -> None:
        self._nodes = self._settle(members, believed)
        self._write()

    def _settle(self, members: dict[str, Member], believed: dict[str, Notice]) -> dict[str, Node]:
        """Members that were or are believed. A notice that has expired is no reason to forget who published it."""
        nodes: dict[str, Node] = {}
        for id, member in members.items():
            known = self._nodes.get(id)
            notice = believed.get(id) or (known.notice if known and known.notice.address == member.address else None)
            if notice is not None:
                nodes[id] = Node(id, member.role == MASTER, notice)
        for id in sorted(self._nodes.keys() - nodes.keys()):
            log.info("%s has left", id)
        for id in sorted(nodes.keys() - self._nodes.keys()):
            log.info("%s is at %s", id, nodes[id].notice.address)
        return nodes

    def _write(self) -> None:
        """Keys of all; into the hostfile only those whose sshd has answered."""
        nodes = list(self._nodes.values())
        ssh_files.write(self.paths.authorized_keys, ssh_files.authorized_keys(nodes))
        ssh_files.write(self.paths.known_hosts, ssh_files.known_hosts(nodes))
        hosts = self.paths.hosts.read_text() if self.paths.hosts.exists() else ""
        ssh_files.write(self.paths.hosts, ssh_files.with_block(hosts, ssh_files.hosts(nodes)))
        if ssh_files.write(self.paths.hostfile, ssh_files.hostfile(self._answering(nodes))):
            log.info("hostfile: %s", self.paths.hostfile.read_text().replace("\n", "; ") or "empty")
        _save(self.paths.state, nodes)

    def _answering(self, nodes: list[Node]) -> list[Node]:
        self._reachable = {id: notice for id, notice in self._reachable.items() if id in self._nodes}
        for node in nodes:
            if self._reachable.get(node.instance_id) != node.notice and self._answers(node.notice):
                self._reachable[node.instance_id] = node.notice
        return [node for node in nodes if self._reachable.get(node.instance_id) == node.notice]

    def _join(self) -> None:
        """A worker is in service only when the master has it in its hostfile and lets it in."""
        has_master = any(node.is_master for node in self._nodes.values())
        obstacle = self._trouble() if has_master else "there is no master, or none whose keys are believed"
        if obstacle:
            if obstacle != self._obstacle:
                log.info("not joined yet: %s", obstacle)
            self._obstacle = obstacle
            return
        if lifecycle_state(self.clients.autoscaling, self.instance_id) == WAITING:
            self.finish("CONTINUE")
        self.joined = True
        log.info("joined")

    def finish(self, result: str) -> None:
        complete_join(self.clients.autoscaling, self.cluster, self.instance_id, result)

    def _ask_master(self) -> str:
        return machine.trouble_with_master(self.cluster.user, self.notice.address, self.paths.hostfile)

    def _tell_refused(self, refused: dict[str, str]) -> None:
        for key, reason in refused.items():
            if self._refused.get(key) != reason:
                log.warning("%s is not believed: %s", key, reason)
        self._refused = refused


def _load(file: Path) -> dict[str, Node]:
    """What was believed before a restart; what can't be read is not."""
    try:
        stored = json.loads(file.read_text())
        return {id: Node(id, one["master"], Notice.parse(one["notice"].encode())) for id, one in stored.items()}
    except (OSError, ValueError, KeyError, TypeError, BadNotice):
        return {}


def _save(file: Path, nodes: list[Node]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    text = {node.instance_id: {"master": node.is_master, "notice": node.notice.to_json()} for node in nodes}
    ssh_files.write(file, json.dumps(text, sort_keys=True), 0o600)


def own_notice(cluster: ClusterFile, address: str) -> Notice:
    """What this machine says of itself; makes the user's key if there is none."""
    return Notice(
        hostname=machine.hostname(),
        address=address,
        slots=cluster.slots,
        idle_slots=cluster.idle_slots,
        host_keys=(machine.public_half(machine.HOST_KEY),),
        user_key=machine.make_user_key(cluster.user),
    )
