"""Tags of EC2 resources, which moto's backend stores by resource id.

https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_Tags.html#tag-restrictions
"""

from collections.abc import Iterable, Mapping
from typing import Any

from moto.ec2.models.core import TaggedEC2Resource
from moto.ec2.utils import EC2_PREFIX_TO_RESOURCE, EC2_RESOURCE_TO_PREFIX, get_prefix

from localcloud.aws.call import Call
from localcloud.aws.ec2 import capacity_reservations, placement_groups, refusals
from localcloud.aws.ec2.refusals import build_invalid_value_error, stop_dry_run
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import operation

MAXIMUM_TAGS = 50

PREFIXES = {"placement-group": "pg", "capacity-reservation": "cr", "vpc-flow-log": "fl"}
"""Maps a resource type to its ID prefix, for types that moto does not recognize as taggable."""


def extend_moto() -> None:
    for kind, prefix in PREFIXES.items():
        EC2_RESOURCE_TO_PREFIX[kind] = prefix
        EC2_PREFIX_TO_RESOURCE[prefix] = kind
    resource: Any = TaggedEC2Resource
    resource.get_tags = _get_tags


def _get_tags(resource: Any) -> list[dict[str, str]]:
    """Return a resource's tags by direct lookup.

    moto's own method searches the tags of all resources with regular expressions, which is slow.
    """
    if not resource.id:
        return []
    kind = EC2_PREFIX_TO_RESOURCE.get(get_prefix(resource.id), "")
    tags = resource.ec2_backend.tags.get(resource.id, {})
    return [{"resource_id": resource.id, "key": key, "value": value, "resource_type": kind} for key, value in tags.items()]


def read_tags(backend: Any, resource_id: str) -> dict[str, str]:
    return dict(backend.tags.get(resource_id, {}))


def describe_tags(backend: Any, resource_id: str) -> list[dict[str, str]]:
    """Return the tags in the format of the Describe operations."""
    return [{"Key": key, "Value": value} for key, value in read_tags(backend, resource_id).items()]


def delete_resource_tags(backend: Any, resource_id: str) -> None:
    """Drop the tags of a deleted resource."""
    backend.tags.pop(resource_id, None)


def read_requested_tags(specifications: Iterable[Mapping[str, Any]] | None, *allowed: str) -> dict[str, dict[str, str]]:
    """Return a mapping from resource types to tags, as requested in `TagSpecifications`.

    Raise AWS's error for types that are not in `allowed`. Without `allowed`, all types are allowed.
    """
    tags: dict[str, dict[str, str]] = {}
    for specification in specifications or ():
        kind = specification.get("ResourceType")
        if not kind:
            raise AwsError("InvalidParameterValue", "Tag specification resource type must have a value")
        if allowed and kind not in allowed:
            raise AwsError("InvalidParameterValue", f"'{kind}' is not a valid taggable resource type for this operation.")
        if kind in tags:
            raise AwsError("InvalidParameterValue", f"{kind}: Duplicate ResourceType")
        tags[kind] = check_tags(specification.get("Tags", []))
    return tags


def check_tags(tags: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return a mapping from tag keys to values. Raise AWS's errors for invalid tags."""
    result: dict[str, str] = {}
    for tag in tags:
        key, value = str(tag.get("Key") or ""), str(tag.get("Value") or "")
        if not key:
            raise AwsError("InvalidParameterValue", "Tag key cannot be empty")
        if key.lower().startswith("aws:"):
            raise build_invalid_value_error(key, "key", "Tag keys starting with 'aws:' are reserved for internal use")
        if len(key) > 128:
            raise AwsError("InvalidParameterValue", f"Tag key exceeds the maximum length of 128 characters: '{key[:20]}...'")
        if len(value) > 256:
            raise AwsError("InvalidParameterValue", f"Tag value exceeds the maximum length of 256 characters: '{value[:20]}...'")
        if key in result:
            raise AwsError("InvalidParameterValue", f"Duplicate tag key '{key}' specified.")
        result[key] = value
    if len(result) > MAXIMUM_TAGS:
        raise AwsError("TagLimitExceeded", f"The maximum number of Tags for a resource has been reached: {MAXIMUM_TAGS}.")
    return result


@operation("ec2", "CreateTags")
def create_tags(call: Call) -> dict[str, Any]:
    if not call.params.get("Resources"):
        raise refusals.build_missing_parameter_error("resourceIdSet")
    if not call.params.get("Tags"):
        raise refusals.build_missing_parameter_error("tagSet")
    check_tags(call.params["Tags"])
    for resource_id in call.params["Resources"]:
        _check_resource_exists(call.backend, resource_id)
    stop_dry_run(call)
    call.moto()
    return {}


_HOLDERS = {
    "eipalloc": "InvalidAllocationID.NotFound",
    "eni": "InvalidNetworkInterfaceID.NotFound",
    "nat": "NatGatewayNotFound",
    "vpce": "InvalidVpcEndpointId.NotFound",
    "pg": "InvalidPlacementGroup.Unknown",
    "cr": "InvalidCapacityReservationId.NotFound",
    "fl": "InvalidFlowLogId.NotFound",
    "sgr": "InvalidSecurityGroupRuleId.NotFound",
}
"""Maps the ID prefix of resources that moto tags without checking that they exist to AWS's error code for missing resources."""


def _check_resource_exists(backend: Any, resource_id: str) -> None:
    prefix = get_prefix(resource_id)
    code = _HOLDERS.get(prefix)
    if code is None:
        return
    if resource_id not in _list_resource_ids(backend, prefix):
        raise refusals.build_not_found_error(code, "ID", resource_id)


def _list_resource_ids(backend: Any, prefix: str) -> Iterable[str]:
    match prefix:
        case "eipalloc":
            return [address.allocation_id for address in backend.addresses]
        case "eni":
            return list(backend.enis)
        case "nat":
            return list(backend.nat_gateways)
        case "vpce":
            return list(backend.vpc_end_points)
        case "pg":
            return [group.id for group in placement_groups.list_groups(backend)]
        case "cr":
            return [reservation.id for reservation in capacity_reservations.list_reservations(backend)]
        case "fl":
            return list(backend.flow_logs)
    groups = [group for in_vpc in backend.groups.values() for group in in_vpc.values()]
    return [rule.id for group in groups for rule in (*group.ingress_rules, *group.egress_rules)]
