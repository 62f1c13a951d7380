"""User data of EKS nodes: nodeadm's NodeConfig, and a script that runs before the kubelet starts.

https://awslabs.github.io/amazon-eks-ami/nodeadm/
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email import message_from_bytes
from typing import Final

import yaml

from infra.naming import Taint

LARGEST_LIMIT: Final = 2**63
"""Limit on the memory that RDMA may pin; in effect, no limit. nodeadm stores the number as a float64, which would round
the real RLIM_INFINITY (2**64 - 1) up to 2**64, a value that containerd rejects. A float64 represents 2**63 exactly."""

OPEN_FILES: Final = {"type": "RLIMIT_NOFILE", "soft": 65536, "hard": 1048576}
"""nodeadm's default. It must be repeated because a list in NodeConfig replaces the default list."""

HUGE_PAGES: Final = 5128
"""Number of 2 MiB pages to reserve for libfabric's EFA provider; AWS's EFA driver pre-allocates the same number:
https://docs.aws.amazon.com/eks/latest/userguide/node-efa.html"""

BOUNDARY: Final = "gpumpi-boot"


@dataclass(frozen=True)
class ClusterAccess:
    """Cluster details that user data needs with a custom AMI. With its own AMIs, EKS adds these details itself."""

    name: str
    endpoint: str
    certificate_authority: str
    service_cidr: str


def build_node_config(
    *,
    raid0: bool,
    pinned_memory: bool,
    cluster: ClusterAccess | None = None,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Taint] = (),
    max_pods: int | None = None,
) -> dict[str, object]:
    """Return a NodeConfig with only the settings that differ from EKS's defaults. `cluster`, `labels` and `taints` are
    needed only with a custom AMI."""
    spec: dict[str, object] = {}
    # The limit must be a flag of the kubelet: EKS's own NodeConfig comes later and sets maxPods in the kubelet's configuration
    # file. Flags take precedence over that file, and nodeadm appends the flags of all parts. NOT VERIFIED on AWS (2026-11-23).
    # https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/usage/#merging-configuration-objects
    flags = [] if max_pods is None else [f"--max-pods={max_pods}"]
    if cluster is not None:
        spec["cluster"] = {
            "name": cluster.name,
            "apiServerEndpoint": cluster.endpoint,
            "certificateAuthority": cluster.certificate_authority,
            "cidr": cluster.service_cidr,
        }
        flags = [*_build_kubelet_flags(labels or {}, taints), *flags]
    if flags:
        spec["kubelet"] = {"flags": flags}
    if pinned_memory:
        memlock = {"type": "RLIMIT_MEMLOCK", "soft": LARGEST_LIMIT, "hard": LARGEST_LIMIT}
        spec["containerd"] = {"baseRuntimeSpec": {"process": {"rlimits": [OPEN_FILES, memlock]}}}
    if raid0:
        spec["instance"] = {"localStorage": {"strategy": "RAID0"}}
    return {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec}


def _build_kubelet_flags(labels: Mapping[str, str], taints: Sequence[Taint]) -> list[str]:
    """Return kubelet flags that register the node with its labels and taints already set.

    Without these flags, pods could be scheduled before the node has its taints.
    """
    flags = ["--node-labels=" + ",".join(f"{key}={value}" for key, value in sorted(labels.items()))]
    if taints:
        flags.append("--register-with-taints=" + ",".join(f"{t.key}={t.value}:{t.effect}" for t in taints))
    return flags


def render_huge_pages_script(pages: int) -> str:
    """Return a script that reserves huge pages. cloud-init runs it before nodeadm starts the kubelet, because the
    kubelet counts huge pages only when it starts."""
    file = "/etc/sysctl.d/90-gpumpi.conf"
    return f"#!/bin/bash\nset -eu\necho 'vm.nr_hugepages = {pages}' > {file}\nsysctl --load {file}\n"


def render_user_data(config: Mapping[str, object], *, huge_pages: int = 0) -> str:
    """Return the multi-part MIME document that EKS requires as user data."""
    parts = [("application/node.eks.aws", yaml.safe_dump(config, sort_keys=False, width=1000))]
    if huge_pages:
        parts.append(('text/x-shellscript; charset="us-ascii"', render_huge_pages_script(huge_pages)))
    body = "".join(f"--{BOUNDARY}\nContent-Type: {kind}\n\n{text}\n" for kind, text in parts)
    return f'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="{BOUNDARY}"\n\n{body}--{BOUNDARY}--\n'


def parse_user_data_parts(encoded: str) -> list[object]:
    """Parse base64-encoded user data. Return the document's MIME parts without the cluster's details."""
    message = message_from_bytes(base64.b64decode(encoded))
    return [
        _normalize_part(part.get_content_type(), str(part.get_payload())) for part in message.walk() if not part.is_multipart()
    ]


def _normalize_part(kind: str, text: str) -> object:
    if kind != "application/node.eks.aws":
        return text.strip()
    config = yaml.safe_load(text)
    return {**config, "spec": {name: value for name, value in config["spec"].items() if name != "cluster"}}


def encode_base64(text: str) -> str:
    """Return user data encoded in base64, as launch templates require."""
    return base64.b64encode(text.encode()).decode()
