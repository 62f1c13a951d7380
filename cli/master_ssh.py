"""SSH to a cluster's master through Session Manager: no open port, and a host key that is known before the first connection."""

import shlex
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from cli.exit_codes import NO_CLUSTER
from cli.plain_cluster import Failed, PlainCluster

PROGRAMS: Final = {
    "ssh": "install OpenSSH's client",
    "aws": "install the AWS CLI v2",
    "session-manager-plugin": "install it: https://docs.aws.amazon.com/systems-manager/latest/userguide/"
    "session-manager-working-with-install-plugin.html",
}
KEEPALIVE_SECONDS: Final = 15
CONNECT_SECONDS: Final = 30


@dataclass(frozen=True)
class MasterSsh:
    """How to reach one master; its command lines."""

    instance_id: str
    user: str
    region: str
    known_hosts: Path
    identity: Path | None = None

    def options(self) -> dict[str, str]:
        """https://docs.aws.amazon.com/systems-manager/latest/userguide/session-manager-getting-started-enable-ssh-connections.html"""
        session = f"aws ssm start-session --region {self.region} --target {self.instance_id}"
        identity = {"IdentityFile": str(self.identity), "IdentitiesOnly": "yes"} if self.identity else {}
        return {
            "ProxyCommand": f"{session} --document-name AWS-StartSSHSession --parameters portNumber=%p",
            "HostKeyAlias": self.instance_id,
            "UserKnownHostsFile": str(self.known_hosts),
            "GlobalKnownHostsFile": "/dev/null",
            "StrictHostKeyChecking": "yes",
            "UpdateHostKeys": "no",
            "ServerAliveInterval": str(KEEPALIVE_SECONDS),
            "ServerAliveCountMax": "4",
            "ConnectTimeout": str(CONNECT_SECONDS),
            **identity,
        }

    def command(self, *remote: str, batch: bool = True, tty: bool = False) -> list[str]:
        """The ssh command; `remote` are words of a command line on the master."""
        options = {**self.options(), **({"BatchMode": "yes"} if batch else {})}
        given = [part for name, value in options.items() for part in ("-o", f"{name}={value}")]
        return ["ssh", *(["-t"] if tty else []), *given, f"{self.user}@{self.instance_id}", *(shlex.quote(one) for one in remote)]


def known_host_lines(instance_id: str, host_keys: Sequence[str]) -> str:
    return "".join(f"{instance_id} {key}\n" for key in host_keys)


def must_exist(identity: Path | None) -> None:
    """Raises Failed."""
    if identity is not None and not identity.exists():
        raise Failed(f"--identity: {identity} does not exist", NO_CLUSTER)


@contextmanager
def to_master(cluster: PlainCluster, identity: Path | None = None) -> Iterator[MasterSsh]:
    """The way to the master. Raises Failed where it is not ready, or something is missing here."""
    for program, way_out in PROGRAMS.items():
        if shutil.which(program) is None:
            raise Failed(f"{program} is not on PATH; {way_out}", NO_CLUSTER)
    must_exist(identity)
    master = cluster.master()
    notice = cluster.notice(master)
    if notice is None:
        way_out = f"`scripts/cluster wait -s {cluster.stack}` waits, and says why it fails"
        raise Failed(f"the master {master.id} has not told its host key yet; {way_out}", NO_CLUSTER)
    with TemporaryDirectory(prefix="gpumpi-ssh-") as folder:
        file = Path(folder) / "known_hosts"
        file.write_text(known_host_lines(master.id, notice["host_keys"]), encoding="utf-8")
        yield MasterSsh(master.id, cluster.user, cluster.region, file, identity)
