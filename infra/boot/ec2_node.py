"""What a node of a plain EC2 cluster is told at boot. The AMI has all programs; this configures, and starts the join service.

A node that fails leaves its log in the key bucket (`scripts/cluster wait` prints it) and, if a worker, asks to be replaced.
"""

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

LIMIT: Final = 16_384
"""Bytes of user data: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-add-user-data.html"""

HOOK: Final = "join"
"""Name of the lifecycle hook at which a worker waits until it has joined."""

JOIN_SECONDS: Final = 900
"""How long a worker may take from its launch until it has joined; GPU instances with terabytes of memory boot for minutes."""
GIVE_UP_SECONDS: Final = JOIN_SECONDS - 180
"""Counted from its user data's start, some time after the launch: it leaves its log before Auto Scaling ends it."""

CLUSTER_FILE: Final = "/etc/gpumpi/cluster.json"
LOG: Final = "/var/log/cloud-init-output.log"

NodeRole = Literal["master", "worker"]


@dataclass(frozen=True)
class ClusterInfo:
    """What all nodes are told alike."""

    stack: str
    region: str
    bucket: str
    user: str
    auto_scaling_group: str
    master_role_id: str
    worker_role_id: str
    """The roles' unique ids (AROA...): with the instance's, the name under which a node may write into the bucket."""


@dataclass(frozen=True)
class SharedMount:
    """The file system, and where nodes see it."""

    file_system_id: str
    access_point_id: str
    path: str


def cluster_file(facts: ClusterInfo, role: NodeRole, *, slots: int, idle_slots: int) -> dict[str, object]:
    """What the join service reads: amis/join/gpumpi_join/cluster_file.py."""
    return {
        "stack": facts.stack,
        "region": facts.region,
        "bucket": facts.bucket,
        "role": role,
        "user": facts.user,
        "slots": slots,
        "idle_slots": idle_slots,
        "auto_scaling_group": facts.auto_scaling_group,
        "lifecycle_hook": HOOK,
        "join_seconds": GIVE_UP_SECONDS,
        "master_role_id": facts.master_role_id,
        "worker_role_id": facts.worker_role_id,
    }


def user_data(content: dict[str, object], public_keys: Sequence[str], mount: SharedMount | None) -> str:
    """The shell script that cloud-init runs as root at the first boot."""
    user = str(content["user"])
    parts = [_BEGIN, _file(CLUSTER_FILE, json.dumps(content, indent=1)), _login(user, public_keys)]
    if mount is not None:
        parts.append(_mount(mount))
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


def _file(path: str, text: str) -> str:
    folder = path.rpartition("/")[0]
    return f"install -d -m 0755 {folder}\ncat >{path} <<'END'\n{text}\nEND\n"


def _login(user: str, public_keys: Sequence[str]) -> str:
    """The nodes' own keys, which the join service keeps, open the accounts of group gpumpi."""
    name = shlex.quote(user)
    lines = [
        f"if ! id {name} >/dev/null 2>&1; then",
        f"  useradd --create-home --shell /bin/bash {name}",
        f"  usermod --password '*' {name} # no password, but not locked: sshd lets no locked user in",
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


def _mount(mount: SharedMount) -> str:
    """Through /etc/fstab, so that it is there after a reboot too. A new mount target's name takes a minute or two to be known:
    https://docs.aws.amazon.com/efs/latest/ug/mounting-fs-mount-cmd-dns-name.html"""
    path, options = shlex.quote(mount.path), f"_netdev,tls,iam,accesspoint={mount.access_point_id}"
    line = shlex.quote(f"{mount.file_system_id}:/ {mount.path} efs {options} 0 0")
    return f"""install -d {path}
echo {line} >>/etc/fstab
for _ in {{1..30}}; do
  if mount {path}; then break; fi
  sleep 10
done
mountpoint {path}
"""
