"""Queries about launch templates."""

from typing import Any

from infra.facts.clients import Clients
from infra.facts.model import NodeTemplate


def template_data(clients: Clients, template_id: str, version: str) -> dict[str, Any]:
    """Return the data of a launch template version; empty if the version does not exist."""
    wanted = {"LaunchTemplateId": template_id, "Versions": [version]}
    versions = clients.ec2.describe_launch_template_versions(**wanted)["LaunchTemplateVersions"]
    return dict(versions[0]["LaunchTemplateData"]) if versions else {}


def node_template(clients: Clients, template_id: str, version: str) -> NodeTemplate:
    data = template_data(clients, template_id, version)
    target = data.get("CapacityReservationSpecification", {}).get("CapacityReservationTarget", {})
    volumes = [mapping["Ebs"].get("VolumeSize") for mapping in data.get("BlockDeviceMappings", ()) if "Ebs" in mapping]
    return NodeTemplate(
        instance_type=data.get("InstanceType"),
        image_id=data.get("ImageId"),
        reservation_id=target.get("CapacityReservationId"),
        root_volume_gib=next(iter(volumes), None),
        interfaces=tuple(
            (one.get("NetworkCardIndex", 0), one["DeviceIndex"], one.get("InterfaceType", "interface"))
            for one in data.get("NetworkInterfaces", ())
        ),
        user_data=data.get("UserData", ""),
    )
