"""Parses an instance's user data as nodeadm and cloud-init do.

https://awslabs.github.io/amazon-eks-ami/nodeadm/
"""

import base64
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import Message
from functools import lru_cache
from typing import Any

import yaml

NODE_CONFIG = "application/node.eks.aws"
_SHELL = "text/x-shellscript"
_REQUIRED = ("apiServerEndpoint", "certificateAuthority", "cidr")
_BOOTSTRAP_SCRIPT = "/etc/eks/bootstrap.sh"
_HUGE_PAGES = re.compile(r"vm\.nr_hugepages\s*=\s*(\d+)")


@dataclass(frozen=True)
class UserData:
    """Node settings from user data. The defaults apply if there is no user data."""

    cluster: str | None = None
    """Name of the cluster to join; None if the user data does not specify one."""
    missing: tuple[str, ...] = ()
    """Missing fields that nodeadm requires in addition to the cluster's name."""
    runs_bootstrap_script: bool = False
    """Whether a script in the user data runs the bootstrap script of Amazon Linux 2."""
    kubelet_flags: tuple[str, ...] = ()
    """Kubelet flags, in order. If a flag, even --node-labels, occurs more than once, the last occurrence wins."""
    kubelet_config: Mapping[str, Any] = field(default_factory=dict)
    """KubeletConfiguration fields that override the node's defaults."""
    huge_pages: int = 0
    """Number of 2 MiB huge pages to reserve."""

    @property
    def labels(self) -> dict[str, str]:
        return dict(pair.split("=", 1) for pair in self._split_flag_items("--node-labels") if "=" in pair)

    @property
    def taints(self) -> tuple[str, ...]:
        """Taints in the form `key=value:Effect`."""
        return tuple(self._split_flag_items("--register-with-taints"))

    @property
    def maximum_pods(self) -> int | None:
        """Maximum number of pods that the kubelet's flags or configuration set; None if they set no maximum."""
        maximum = next(iter(self._split_flag_items("--max-pods")), self.kubelet_config.get("maxPods"))
        return None if maximum is None else int(maximum)

    @property
    def other_flags(self) -> tuple[str, ...]:
        own = ("--node-labels=", "--register-with-taints=")
        return tuple(flag for flag in self.kubelet_flags if not flag.startswith(own))

    def _split_flag_items(self, flag: str) -> list[str]:
        values = [argument.removeprefix(f"{flag}=") for argument in self.kubelet_flags if argument.startswith(f"{flag}=")]
        return [item for item in values[-1].split(",") if item] if values else []


@lru_cache(maxsize=256)
def parse_user_data(user_data: str | None) -> UserData:
    """Parse user data as EC2 stores it: a base64-encoded MIME document, NodeConfig or script.

    The result is cached, because all instances of a node group have the same user data, and the user data of each
    instance is read repeatedly.
    """
    if not user_data:
        return UserData()
    configs, scripts = [], []
    for kind, text in _iterate_parts(base64.b64decode(user_data)):
        if kind == NODE_CONFIG:
            configs.append(_parse_node_config(text))
        elif kind == _SHELL:
            scripts.append(text)
    return _merge_parts([config.get("spec", {}) for config in configs], "\n".join(scripts))


def _parse_node_config(text: str) -> Mapping[str, Any]:
    config = yaml.safe_load(text) or {}
    if not isinstance(config, Mapping):
        raise ValueError("its NodeConfig is not a YAML object")
    return config


def _merge_parts(specs: list[Mapping[str, Any]], scripts: str) -> UserData:
    """Merge all parts: https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/usage/#merging-configuration-objects

    nodeadm passes the kubelet flags of all parts to the kubelet. If a flag occurs more than once, the last occurrence
    wins.
    """
    cluster: dict[str, Any] = {}
    flags: list[str] = []
    config: dict[str, Any] = {}
    for spec in specs:
        cluster = merge_objects(cluster, spec.get("cluster") or {})
        kubelet = spec.get("kubelet") or {}
        flags += kubelet.get("flags") or []
        config = merge_objects(config, kubelet.get("config") or {})
    pages = _HUGE_PAGES.findall(scripts)
    return UserData(
        cluster=cluster.get("name") or None,
        missing=tuple(field for field in _REQUIRED if cluster and not cluster.get(field)),
        runs_bootstrap_script=_BOOTSTRAP_SCRIPT in scripts,
        kubelet_flags=tuple(flags),
        kubelet_config=config,
        huge_pages=int(pages[-1]) if pages else 0,
    )


def merge_objects(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two objects recursively. Values in `second` take precedence."""
    result = dict(first)
    for key, value in second.items():
        ours = result.get(key)
        result[key] = merge_objects(ours, value) if isinstance(ours, Mapping) and isinstance(value, Mapping) else value
    return result


def _iterate_parts(document: bytes) -> Iterator[tuple[str, str]]:
    """Yield the content type and the text of each part. A document that is not MIME is a single part."""
    if document.startswith(b"#!"):
        yield _SHELL, document.decode()
        return
    if not re.match(rb"(?i)(mime-version|content-type):", document):
        yield NODE_CONFIG, document.decode(errors="replace")
        return
    for part in message_from_bytes(document).walk():
        if not part.is_multipart():
            yield part.get_content_type(), _decode_part(part)


def _decode_part(part: Message) -> str:
    payload = part.get_payload(decode=True)
    return payload.decode(errors="replace") if isinstance(payload, bytes) else str(payload)
