"""Pod settings: pods that satisfy Pod Security `restricted`, and node agents."""

from typing import Any, Final

USER: Final = 65532
"""The `nonroot` user, for images that define no user."""

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
"""Agents access a kubelet directory owned by root, and have no other privileges."""

EVERY_TAINT: Final = [{"operator": "Exists"}]
"""Agents run on every node that their selector matches, regardless of taints."""

DEVICE_PLUGINS: Final = "/var/lib/kubelet/device-plugins"


def http_probe(path: str, port: int, *, period: int) -> dict[str, Any]:
    return {"http_get": {"path": path, "port": port}, "period_seconds": period, "timeout_seconds": 5, "failure_threshold": 3}
