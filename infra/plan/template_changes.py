"""Changes that `pulumi up` would make to the launch template of an existing node group. Pure."""

from infra.boot import eks_node
from infra.boot.eks_node import ClusterAccess
from infra.facts.model import NodeTemplate
from infra.plan.node_user_data import encoded_user_data
from infra.plan.specs import NodePoolSpec


def changes(spec: NodePoolSpec, template: NodeTemplate) -> list[str]:
    """Return the names of changed settings that would create a new template version. `user data` counts as one
    setting."""
    interfaces = sorted((interface.network_card, interface.device, interface.type) for interface in spec.interfaces)
    reservation = spec.reservation.id if spec.reservation else None
    equal = {
        "instanceType": spec.instance_type == template.instance_type,
        "amiId": spec.ami_id == template.image_id,
        "capacity.reservationId": reservation == template.reservation_id,
        "rootVolumeGib": spec.root_volume_gib == template.root_volume_gib,
        "efa": interfaces == sorted(template.interfaces),
        "user data": _same_user_data(spec, template),
    }
    return [name for name, same in equal.items() if not same]


def _same_user_data(spec: NodePoolSpec, template: NodeTemplate) -> bool:
    """Compare the user data without the description of the cluster, which does not change while the cluster exists."""
    cluster = ClusterAccess("", "", "", "") if spec.ami_id else None
    encoded = encoded_user_data(spec, cluster)
    return eks_node.parts_without_cluster(encoded) == eks_node.parts_without_cluster(template.user_data)
