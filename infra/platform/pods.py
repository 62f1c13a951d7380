"""Pods as this program wants them: those that satisfy Pod Security `restricted`, and agents of nodes."""

from typing import Any, Final

USER: Final = 65532
"""`nonroot` of images without a user of their own."""

RESTRICTED_POD: Final[dict[str, Any]] = {
    "run_as_non_root": True,
    "run_as_user": USER,
    "run_as_group": USER,
    "seccomp_profile": {"type": "RuntimeDefault"},
}
RESTRICTED_CONTAINER: Final[dict[str, Any]] = {
    "allow_privilege_escalation": False,
    "read_only_root_filesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
AGENT_CONTAINER: Final[dict[str, Any]] = {**RESTRICTED_CONTAINER, "run_as_user": 0}
"""An agent talks to the kubelet through a directory of root's, with no right beyond that."""

EVERY_TAINT: Final = [{"operator": "Exists"}]
"""An agent is wanted on every node that its selector names, whatever keeps other pods away."""

DEVICE_PLUGINS: Final = "/var/lib/kubelet/device-plugins"


def http_probe(path: str, port: int, *, period: int) -> dict[str, Any]:
    return {"http_get": {"path": path, "port": port}, "period_seconds": period, "timeout_seconds": 5, "failure_threshold": 3}
