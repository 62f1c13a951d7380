"""User data of EC2 cluster nodes. The AMI contains all programs; user data configures them and starts the join service.

A node that fails to boot uploads its log to the key bucket (`scripts/cluster wait` prints it). A worker that fails to
boot also asks Auto Scaling to replace it."""

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Generic, Literal, TypeVar

from infra.naming import GROUP_ID, USER_ID

Text = TypeVar("Text")

LIMIT: Final = 16_384
"""Maximum size of user data in bytes:
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-add-user-data.html"""

HOOK: Final = "join"
"""Name of the lifecycle hook that keeps a worker out of service until it has joined."""

LAUNCH_SECONDS: Final = 180
"""Part of the join time limit that is reserved for two other steps: the launch until user data starts, and the upload
of the log before Auto Scaling terminates a worker that did not join."""
HEAD_NODE_SECONDS: Final = 720
"""`join_seconds` in the head node's cluster file. The head node waits without a limit and ignores the value. Do not
change it: different user data would replace existing head nodes."""

FIRST_PAUSE_SECONDS: Final = 5
LONGEST_PAUSE_SECONDS: Final = 60
"""First and longest pause between attempts to mount the shared file system. Each pause doubles the previous one."""

CLUSTER_FILE: Final = "/etc/gpumpi/cluster.json"
LOG: Final = "/var/log/cloud-init-output.log"

NodeRole = Literal["master", "worker"]
"""The head node's role is `master`, because the AMIs' join service, tags and users' Pulumi state contain that value."""


@dataclass(frozen=True)
class ClusterInfo:
    """Cluster details that are the same in every node's user data."""

    stack: str
    region: str
    bucket: str
    user: str
    auto_scaling_group: str
    head_node_role_id: str
    worker_role_id: str
    """The roles' unique IDs (AROA...). A node may write to the bucket only below a prefix that consists of its role ID
    and its instance ID."""


@dataclass(frozen=True)
class Mount(Generic[Text]):
    """A shared file system and its mount point."""

    path: str
    fstab: Text
    """Line of /etc/fstab."""
    owned: Sequence[str] = ()
    """Directories of a new file system that the login user must own. Only the head node sets the owner."""


def build_cluster_file(
    cluster: ClusterInfo, role: NodeRole, *, slots: int, idle_slots: int, join_seconds: int
) -> dict[str, object]:
    """Return the content of the file that the join service reads (amis/join/gpumpi_join/cluster_file.py).
    `join_seconds` is the workers' time limit from launch to join.

    The key `master_role_id` keeps its name because published AMIs expect it.
    """
    return {
        "stack": cluster.stack,
        "region": cluster.region,
        "bucket": cluster.bucket,
        "role": role,
        "user": cluster.user,
        "slots": slots,
        "idle_slots": idle_slots,
        "auto_scaling_group": cluster.auto_scaling_group,
        "lifecycle_hook": HOOK,
        "join_seconds": HEAD_NODE_SECONDS if role == "master" else join_seconds - LAUNCH_SECONDS,
        "master_role_id": cluster.head_node_role_id,
        "worker_role_id": cluster.worker_role_id,
    }


def render_user_data(
    content: dict[str, object],
    public_keys: Sequence[str],
    mounts: Sequence[Mount[str]],
) -> str:
    """Return the shell script that cloud-init runs as root at first boot."""
    user = str(content["user"])
    parts = [_BEGIN, _render_file_command(CLUSTER_FILE, json.dumps(content, indent=1)), _render_user_commands(user, public_keys)]
    limit = content["join_seconds"] if content["role"] == "worker" else None
    for mount in mounts:
        parts.append(_render_mount_commands(mount, limit_seconds=limit))
        if content["role"] == "master" and mount.owned:
            parts.append(_render_chown_command(mount))
    parts.append("systemctl start gpumpi-join.service\n")
    return "\n".join(parts)


_BEGIN: Final = f"""#!/bin/bash
# Makes this instance a node of its cluster. What it starts is in the AMI.
set -o errexit -o errtrace -o nounset -o pipefail

failed() {{
  trap - ERR
  echo "gpumpi: boot failed in line $1: $2"
  sleep 1 # cloud-init's log is written by another process
  gpumpi-join --failed {LOG}
  exit 1
}}
trap 'failed "$LINENO" "$BASH_COMMAND"' ERR
"""


def _render_file_command(path: str, text: str) -> str:
    folder = path.rpartition("/")[0]
    return f"install -d -m 0755 {folder}\ncat >{path} <<'END'\n{text}\nEND\n"


def _render_user_commands(user: str, public_keys: Sequence[str]) -> str:
    """Return the commands that create the login user.

    The user is in group gpumpi: the join service manages the node keys that give SSH access to this group's accounts.
    """
    name = shlex.quote(user)
    lines = [
        f"if ! id {name} >/dev/null 2>&1; then",
        f"  useradd --create-home --shell /bin/bash {name}",
        f"  usermod --password '*' {name} # no password, but not locked: sshd rejects locked users",
        "fi",
        f"usermod --append --groups gpumpi {name}",
    ]
    if public_keys:
        file = f"~{name}/.ssh/authorized_keys"
        lines += [
            f"install -d -m 0700 -o {name} -g {name} ~{name}/.ssh",
            f"cat >{file} <<'END'",
            *public_keys,
            "END",
            f"chown {name}:{name} {file}",
            f"chmod 0600 {file}",
        ]
    return "\n".join(lines) + "\n"


def _render_chown_command(mount: Mount[str]) -> str:
    """Return a command that makes a directory writable for job images and login users; at first, only root can write to it."""
    paths = " ".join(shlex.quote(f"{mount.path}{directory}".rstrip("/")) for directory in mount.owned)
    return f"chown {USER_ID}:{GROUP_ID} {paths}\n"


def _render_mount_commands(mount: Mount[str], limit_seconds: object) -> str:
    """Return the commands that mount the file system through /etc/fstab, so that it is mounted again after reboots.

    The DNS name of a new mount target takes a minute or two to resolve
    (https://docs.aws.amazon.com/efs/latest/ug/mounting-fs-mount-cmd-dns-name.html), and a missing security group rule
    may be added later. The node therefore retries, and reports the reason if the AMI's `gpumpi-join` supports that. A
    worker gives up when its join time limit has passed, and Auto Scaling replaces it. A head node never gives up.
    """
    path, line = shlex.quote(mount.path), shlex.quote(mount.fstab)
    give_up = """trap 'failed "$LINENO" "$reason"' ERR; false"""
    limit = f"\n  if ((SECONDS > {limit_seconds})); then {give_up}; fi" if limit_seconds is not None else ""
    return f"""install -d {path}
echo {line} >>/etc/fstab
pause={FIRST_PAUSE_SECONDS}
until reason=$(mount {path} 2>&1); do
  reason="{mount.path} cannot be mounted: ${{reason//$'\\n'/ }}"
  echo "gpumpi: $reason; trying again in $pause s"
  timeout 60 gpumpi-join --waiting "$reason" >/dev/null 2>&1 || true{limit}
  sleep "$pause"
  pause=$((pause * 2 < {LONGEST_PAUSE_SECONDS} ? pause * 2 : {LONGEST_PAUSE_SECONDS}))
done
mountpoint {path}
"""
