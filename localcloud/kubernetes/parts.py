"""The parts of every cluster."""

from localcloud.kubernetes.access.part import Access
from localcloud.kubernetes.efs_csi.part import EfsCsi
from localcloud.kubernetes.fsx_csi.part import FsxCsi
from localcloud.kubernetes.image_registry import ImageRegistry
from localcloud.kubernetes.network_policy.part import NetworkPolicies
from localcloud.kubernetes.node_health import NodeHealth
from localcloud.kubernetes.node_monitoring.part import NodeMonitoring
from localcloud.kubernetes.nodes.fleet import Fleet
from localcloud.kubernetes.part import Part
from localcloud.kubernetes.pod_identity.part import PodIdentity

PARTS: tuple[type[Part], ...] = (
    Access,
    PodIdentity,
    ImageRegistry,
    EfsCsi,
    FsxCsi,
    NodeMonitoring,
    NetworkPolicies,
    NodeHealth,
    Fleet,
)
"""Part classes, in the order in which they receive events."""
