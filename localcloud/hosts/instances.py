"""Convert EC2 instance descriptions to the data that IMDS reports."""

import base64
from collections.abc import Mapping
from functools import partial
from ipaddress import IPv4Network
from typing import Any

from localcloud.aws.call import backend_of
from localcloud.aws.ec2 import instance_calls, notices
from localcloud.aws.eks.node_groups.tags import CLUSTER_TAG
from localcloud.aws.events import Event
from localcloud.hosts.metadata import Machine


def is_local_host(described: Mapping[str, Any]) -> bool:
    """Return whether the instance runs as a local host. Instances in managed node groups run as cluster nodes
    instead."""
    return CLUSTER_TAG not in _get_tags(described)


def build_machine(event: Event) -> Machine:
    """Return the IMDS data of the event's instance. The caller must hold `gateway.LOCK`."""
    ec2 = backend_of("ec2", event.account, event.region)
    described = event.details
    primary = next(interface for interface in described["NetworkInterfaces"] if _is_primary(interface))
    profile = described["IamInstanceProfile"]
    role = _find_role(event, profile["Arn"]) if profile else None
    metadata = described["MetadataOptions"]
    (instance,) = instance_calls.find_instances(ec2, [event.name])
    encoded_user_data = instance.user_data
    user_data = encoded_user_data.as_bytes() if encoded_user_data else None
    return Machine(
        instance_id=event.name,
        image_id=described["ImageId"],
        instance_type=described["InstanceType"],
        account=event.account,
        region=event.region,
        zone=described["Placement"]["AvailabilityZone"],
        hostname=described["PrivateDnsName"],
        address=described["PrivateIpAddress"],
        mac=primary["MacAddress"],
        vpc=described["VpcId"],
        subnet=described["SubnetId"],
        security_groups=tuple(group["GroupName"] for group in described["SecurityGroups"]),
        public_key=_find_public_key(ec2, described.get("KeyName")),
        profile_arn=profile["Arn"] if profile else None,
        role=role.name if role else None,
        role_arn=role.arn if role else None,
        user_data=base64.b64decode(user_data) if user_data else None,
        tokens_required=metadata["HttpTokens"] == "required",
        hop_limit=int(metadata["HttpPutResponseHopLimit"] or 1),
        tags=_get_tags(described) if metadata["InstanceMetadataTags"] == "enabled" else {},
        announced=partial(notices.list_metadata_paths, instance),
    )


def find_vpc_cidr(event: Event) -> IPv4Network:
    return IPv4Network(backend_of("ec2", event.account, event.region).get_vpc(event.details["VpcId"]).cidr_block)


def _is_primary(interface: Mapping[str, Any]) -> bool:
    attachment = interface["Attachment"]
    return (attachment.get("NetworkCardIndex") or 0, attachment["DeviceIndex"]) == (0, 0)


def _get_tags(described: Mapping[str, Any]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in described.get("Tags", ())}


def _find_role(event: Event, profile_arn: str) -> Any:
    profiles = backend_of("iam", event.account, event.region).instance_profiles.values()
    roles = next(profile.roles for profile in profiles if profile.arn == profile_arn)
    return roles[0] if roles else None


def _find_public_key(ec2: Any, name: str | None) -> tuple[str, str] | None:
    pair = ec2.key_pairs.get(name) if name else None
    if pair is None:
        return None
    material = pair.material_public
    return pair.key_name, (material.decode() if isinstance(material, bytes) else material).strip()
