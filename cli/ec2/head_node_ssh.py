"""SSH to the head node through Session Manager. The connection needs no open port. The host key is known in advance,
because the node has published it.
"""

import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from cli.ec2.ec2_instances import DeployedEc2Cluster
from cli.errors import CommandError, NotFound
from cli.exit_codes import UNREACHABLE
from cli.installation import program_name as program

PROGRAMS: Final = {
    "ssh": "install OpenSSH's client",
    "aws": "install the AWS CLI v2",
    "session-manager-plugin": "install it: https://docs.aws.amazon.com/systems-manager/latest/userguide/"
    "session-manager-working-with-install-plugin.html",
}
KEEPALIVE_SECONDS: Final = 15
CONNECT_SECONDS: Final = 120
"""Includes the start of the AWS CLI and its plugin, which can take half a minute on a loaded machine."""


@dataclass(frozen=True)
class HeadNodeSsh:
    """Builds ssh command lines for one head node."""

    instance_id: str
    user: str
    region: str
    known_hosts: Path
    identity: Path | None = None

    def options(self) -> dict[str, str]:
        """Return ssh options for a connection through Session Manager.

        https://docs.aws.amazon.com/systems-manager/latest/userguide/session-manager-getting-started-enable-ssh-connections.html
        """
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
        """Return the ssh command. `remote` is the command to run on the head node, as a list of words."""
        options = {**self.options(), **({"BatchMode": "yes"} if batch else {})}
        flags = [part for name, value in options.items() for part in ("-o", f"{name}={value}")]
        return [
            "ssh",
            *(["-t"] if tty else []),
            *flags,
            f"{self.user}@{self.instance_id}",
            *(shlex.quote(word) for word in remote),
        ]


def check_key_file_exists(identity: Path | None) -> None:
    """Raise NotFound if the private key file does not exist."""
    if identity is not None and not identity.exists():
        raise NotFound(f"--identity: {identity} does not exist")


@contextmanager
def connect_to_head_node(cluster: DeployedEc2Cluster, identity: Path | None = None) -> Iterator[HeadNodeSsh]:
    """Yield SSH access to the head node.

    Raises CommandError if the head node is not ready, or if a program or key is missing on this machine.
    """
    for name, fix in PROGRAMS.items():
        if shutil.which(name) is None:
            raise CommandError(f"{name} is not on PATH; {fix}")
    check_key_file_exists(identity)
    node = cluster.head_node()
    notice = cluster.read_notice(node)
    if notice is None:
        fix = f"`{program()} wait -s {cluster.stack}` waits for it and shows why it fails"
        raise CommandError(f"the head node {node.id} has not published its host key yet; {fix}", UNREACHABLE)
    with TemporaryDirectory(prefix="gpumpi-ssh-") as folder:
        file = Path(folder) / "known_hosts"
        file.write_text("".join(f"{node.id} {key}\n" for key in notice["host_keys"]), encoding="utf-8")
        yield HeadNodeSsh(node.id, cluster.user, cluster.region, file, identity)
