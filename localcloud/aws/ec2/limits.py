"""Account quotas that EC2 enforces when it creates a resource.

Error codes: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
Messages are from public logs. The message about network interfaces is NOT VERIFIED (2026-11-23).
"""

import re
from typing import Any

from localcloud.aws import quotas
from localcloud.aws.ec2.capacity_reservations import CapacityReservation, list_reservations
from localcloud.aws.ec2.instance_types import TypeFacts, find_type_facts
from localcloud.aws.errors import AwsError

ADDRESSES, VPCS, INTERNET_GATEWAYS, NAT_GATEWAYS, INTERFACES, GP3_STORAGE = (
    *("L-0263D0A3", "L-F678F1CE", "L-A4707A72"),
    *("L-FE5A380F", "L-DF5E4CA3", "L-7A658B76"),
)

_ON_DEMAND = {
    **dict.fromkeys(("a", "c", "d", "h", "i", "im", "is", "m", "r", "t", "z"), "L-1216C47A"),
    **dict.fromkeys(("g", "gr", "vt"), "L-DB2E81BA"),
    **{"p": "L-417A185B", "inf": "L-1945791B", "trn": "L-2C3B7624", "hpc": "L-F7808C92"},
    **{"f": "L-74FC7D96", "dl": "L-6E869C2A", "x": "L-7295265B", "u": "L-43DA4232"},
}
"""Maps the leading letters of an instance type to the code of the quota for its On-Demand vCPUs.

https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html
"""
_SPOT = {
    **dict.fromkeys(("a", "c", "d", "h", "i", "im", "is", "m", "r", "t", "z"), "L-34B43A08"),
    **dict.fromkeys(("g", "gr", "vt"), "L-3819A6DF"),
    **dict.fromkeys(("p2", "p3", "p4"), "L-7212CCBC"),
    **{"p5": "L-C4BD4855", "inf": "L-B5D1601B", "trn": "L-6B0D517C"},
    **{"f": "L-88CF9481", "dl": "L-85EED4F7", "x": "L-E3A00192"},
}
"""The same mapping for Spot vCPUs. P types have one Spot quota per generation; AWS lists no quota for the sixth
generation."""


def find_vcpu_quota_code(name: str, market: str) -> str | None:
    """Return the code of the vCPU quota of an instance type; None if AWS lists no quota for the type.

    >>> pools = ("g5.xlarge", "on-demand"), ("p4d.24xlarge", "spot"), ("p5.48xlarge", "capacity-block")
    >>> [find_vcpu_quota_code(*pool) for pool in pools]
    ['L-DB2E81BA', 'L-7212CCBC', None]
    """
    matched = re.match(r"([a-z]+)(\d*)", name)
    if matched is None or market == "capacity-block":
        return None
    table = _SPOT if market == "spot" else _ON_DEMAND
    return table.get(matched[1]) or table.get(matched[1] + matched[2])


def check_vcpu_quota(
    backend: Any, type_facts: TypeFacts, market: str, reservation: CapacityReservation | None, count: int
) -> None:
    """Raise EC2's error if a launch exceeds the vCPU quota. A launch into a reservation is not checked, because the
    reservation itself counts against the quota.
    """
    code = find_vcpu_quota_code(type_facts.name, market)
    if code is None or reservation is not None:
        return
    limit = int(quotas.get_quota_value(code))
    if _count_used_vcpus(backend, code) + type_facts.vcpus * count <= limit:
        return
    if market == "spot":
        raise AwsError("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded")
    raise AwsError(
        "VcpuLimitExceeded",
        f"You have requested more vCPU capacity than your current vCPU limit of {limit} allows for the instance bucket that the "
        "specified instance type belongs to. Please visit http://aws.amazon.com/contact-us/ec2-request to request an "
        "adjustment to this limit.",
    )


def _count_used_vcpus(backend: Any, code: str) -> int:
    """Return the vCPUs that count against the quota. These vCPUs belong to running instances outside reservations, and to all
    On-Demand Capacity Reservations, used or unused."""
    reserved = [item for item in list_reservations(backend) if item.kind == "default" and item.state == "active"]
    vcpus = sum(
        _count_type_vcpus(item.instance_type) * item.total
        for item in reserved
        if find_vcpu_quota_code(item.instance_type, "on-demand") == code
    )
    for launched in backend.reservations.values():
        for instance in launched.instances:
            if instance.state in ("pending", "running") and not getattr(instance, "capacity_reservation_id", None):
                market = getattr(instance, "market", "on-demand")
                vcpus += (
                    _count_type_vcpus(instance.instance_type)
                    if find_vcpu_quota_code(instance.instance_type, market) == code
                    else 0
                )
    return vcpus


def _count_type_vcpus(name: str) -> int:
    instance_facts = find_type_facts(name)
    return instance_facts.vcpus if instance_facts is not None else 0


def check_interface_quota(backend: Any, more: int) -> None:
    if len(backend.enis) + more > quotas.get_quota_value(INTERFACES):
        raise AwsError("NetworkInterfaceLimitExceeded", "The maximum number of network interfaces has been reached.")


def check_gp3_storage_quota(backend: Any, more_gib: int) -> None:
    """https://repost.aws/knowledge-center/ebs-volume-limit-exceeded"""
    used = sum(volume.size for volume in backend.volumes.values() if volume.volume_type == "gp3")
    limit = quotas.get_quota_value(GP3_STORAGE)
    if more_gib and used + more_gib > limit * 1024:
        raise AwsError(
            "VolumeLimitExceeded",
            f"You have exceeded your maximum gp3 storage limit of {limit:g} TiB in this region. Please "
            "contact AWS Support to request an Elastic Block Store service limit increase.",
        )


def check_address_quota(backend: Any) -> None:
    if len(backend.addresses) >= quotas.get_quota_value(ADDRESSES):
        raise AwsError("AddressLimitExceeded", "The maximum number of addresses has been reached.")


def check_vpc_quota(backend: Any) -> None:
    if len(backend.vpcs) >= quotas.get_quota_value(VPCS):
        raise AwsError("VpcLimitExceeded", "The maximum number of VPCs has been reached.")


def check_internet_gateway_quota(backend: Any) -> None:
    if len(backend.internet_gateways) >= quotas.get_quota_value(INTERNET_GATEWAYS):
        raise AwsError("InternetGatewayLimitExceeded", "The maximum number of internet gateways has been reached.")


def check_nat_gateway_quota(backend: Any, zone: str) -> None:
    """Raise EC2's error if another NAT gateway would exceed the zone's quota. Pending, available and deleting gateways
    count."""
    live = [gateway for gateway in backend.nat_gateways.values() if gateway.state in ("pending", "available", "deleting")]
    here = [gateway for gateway in live if backend.get_subnet(gateway.subnet_id).availability_zone == zone]
    limit = int(quotas.get_quota_value(NAT_GATEWAYS))
    if len(here) >= limit:
        raise AwsError("NatGatewayLimitExceeded", f"Performing this operation would exceed the limit of {limit} NAT gateways")
