"""VPC of an EKS cluster: requirements, and the resources that EKS creates in it.

Rules: https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html and .../sec-group-reqs.html.
Error messages are taken from public issues.
"""

from ipaddress import IPv4Network, ip_network
from typing import Any

from localcloud.aws.eks.errors import build_invalid_parameter_error
from localcloud.aws.errors import AwsError

ZONES_WITHOUT_EKS = frozenset({"use1-az3", "usw1-az2", "cac1-az3"})
FREE_ADDRESSES_PER_ZONE = 5
PRIVATE_RANGES = tuple(IPv4Network(cidr) for cidr in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"))
NOT_PUBLIC = (
    *PRIVATE_RANGES,
    *(IPv4Network(cidr) for cidr in ("0.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "192.0.0.0/24")),
    *(IPv4Network(cidr) for cidr in ("198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4")),
)
"""Reserved addresses, which publicAccessCidrs must not include. Of those that EKS refuses, the ranges for documentation
(RFC 5737) are missing: the examples in stacks/ use them."""
PUBLIC_CIDRS_LIMIT = 40
NETWORK_INTERFACES_LIMIT = 4


def find_subnets(ec2: Any, ids: list[str]) -> list[Any]:
    """Return moto's subnets with these ids. Raise EKS's error if a subnet does not exist."""
    subnets_by_id = {subnet_id: subnet for zone in ec2.subnets.values() for subnet_id, subnet in zone.items()}
    for subnet_id in ids:
        if subnet_id not in subnets_by_id:
            raise build_invalid_parameter_error(f"The subnet ID '{subnet_id}' does not exist")
    return [subnets_by_id[subnet_id] for subnet_id in ids]


def find_cluster_subnets(ec2: Any, ids: list[str], cluster: str) -> list[Any]:
    """Return the subnets, after checking that a control plane can use them."""
    if len(set(ids)) != len(ids):
        raise build_invalid_parameter_error("Duplicate subnet IDs provided", clusterName=cluster)
    chosen = find_subnets(ec2, ids)
    if len({subnet.vpc_id for subnet in chosen}) > 1:
        raise build_invalid_parameter_error("Subnets specified must belong to the same VPC", clusterName=cluster)
    _check_zones(ec2, chosen, cluster)
    free: dict[str, int] = {}
    for subnet in chosen:
        zone = subnet.availability_zone
        free[zone] = max(free.get(zone, 0), subnet.available_ip_address_count)
    full = sorted(zone for zone, count in free.items() if count < FREE_ADDRESSES_PER_ZONE)
    if full:
        raise build_invalid_parameter_error(
            f"Atleast one subnet in each AZ should have {FREE_ADDRESSES_PER_ZONE} free IPs. "
            f"Invalid AZs: {{ [{', '.join(full)}] }}, provided subnets: {{ {', '.join(ids)} }}",
            clusterName=cluster,
        )
    return chosen


def _check_zones(ec2: Any, chosen: list[Any], cluster: str) -> None:
    for subnet in chosen:
        if subnet.availability_zone_id in ZONES_WITHOUT_EKS:
            valid = sorted(zone.name for zone in ec2.describe_availability_zones() if zone.zone_id not in ZONES_WITHOUT_EKS)
            raise AwsError(
                "UnsupportedAvailabilityZoneException",
                f"Cannot create cluster '{cluster}' because {subnet.availability_zone}, the targeted availability zone, does not "
                "currently have sufficient capacity to support the cluster. "
                f"Retry and choose from these availability zones: {', '.join(valid)}",
                clusterName=cluster,
                validZones=valid,
            )
    if len({subnet.availability_zone for subnet in chosen}) < 2:
        raise build_invalid_parameter_error("Subnets specified must be in at least two different AZs", clusterName=cluster)


def check_same_zones(chosen: list[Any], before: list[Any], cluster: str) -> None:
    chosen_zones, fixed = (",".join(sorted({subnet.availability_zone for subnet in some})) for some in (chosen, before))
    if chosen_zones != fixed:
        raise build_invalid_parameter_error(
            f"Provided subnets belong to the AZs '{chosen_zones}'. But they should belong to the exact set of AZs '{fixed}' "
            "in which subnets were provided during cluster creation.",
            clusterName=cluster,
        )


def check_security_groups(ec2: Any, ids: list[str], vpc_id: str, cluster: str) -> None:
    groups = {group_id: ec2.get_security_group_from_id(group_id) for group_id in ids}
    for group_id, group in groups.items():
        if group is None:
            raise build_invalid_parameter_error(f"The security group ID '{group_id}' does not exist", clusterName=cluster)
    foreign = [group_id for group_id, group in groups.items() if group.vpc_id != vpc_id]
    if foreign:
        raise build_invalid_parameter_error(
            f"Security group(s) [{', '.join(foreign)}] are not in the same VPC as the subnets. "
            f"Please specify a security group that is associated with the VPC: {vpc_id}.",
            clusterName=cluster,
        )


def list_vpc_networks(ec2: Any, vpc_id: str) -> list[IPv4Network]:
    vpc = ec2.get_vpc(vpc_id)
    return [IPv4Network(association["cidr_block"]) for association in vpc.get_cidr_block_association_set()]


def choose_service_cidr(ec2: Any, vpc_id: str, requested: str | None, cluster: str) -> str:
    """Return the CIDR block for Kubernetes services: the requested block, or the block that EKS would choose.

    https://docs.aws.amazon.com/eks/latest/APIReference/API_KubernetesNetworkConfigRequest.html
    """
    networks = list_vpc_networks(ec2, vpc_id)
    if requested is None:
        ten = IPv4Network("10.0.0.0/8")
        return "172.20.0.0/16" if any(network.overlaps(ten) for network in networks) else "10.100.0.0/16"
    try:
        network = IPv4Network(requested)
    except ValueError as error:
        raise build_invalid_parameter_error(
            f"The service IPv4 CIDR {requested} is not a valid CIDR block", clusterName=cluster
        ) from error
    if not any(network.subnet_of(private) for private in PRIVATE_RANGES):
        raise build_invalid_parameter_error(
            f"The service IPv4 CIDR {requested} must be within 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16", clusterName=cluster
        )
    if not 12 <= network.prefixlen <= 24:
        raise build_invalid_parameter_error(f"The service IPv4 CIDR {requested} must be between /24 and /12", clusterName=cluster)
    overlapping = [str(other) for other in networks if other.overlaps(network)]
    if overlapping:
        raise build_invalid_parameter_error(
            f"The service IPv4 CIDR {requested} overlaps with the VPC's CIDR {overlapping[0]}", clusterName=cluster
        )
    return requested


def check_public_cidrs(cidrs: list[str], cluster: str) -> list[str]:
    """https://docs.aws.amazon.com/eks/latest/APIReference/API_VpcConfigRequest.html, publicAccessCidrs: clusters with IPv4
    accept no IPv6 CIDRs, and https://docs.aws.amazon.com/eks/latest/userguide/config-cluster-endpoint.html: no reserved
    addresses"""
    if len(cidrs) > PUBLIC_CIDRS_LIMIT:
        raise build_invalid_parameter_error(
            f"At most {PUBLIC_CIDRS_LIMIT} publicAccessCidrs can be specified", clusterName=cluster
        )
    refused = []
    for cidr in cidrs:
        try:
            network = ip_network(cidr)
        except ValueError as error:
            raise build_invalid_parameter_error(f"Invalid CIDR in publicAccessCidrs: {cidr}", clusterName=cluster) from error
        if not isinstance(network, IPv4Network):
            raise build_invalid_parameter_error(
                f"The following CIDRs are invalid in publicAccessCidrs: [{cidr}]", clusterName=cluster
            )
        if network.prefixlen and any(network.overlaps(reserved) for reserved in NOT_PUBLIC):
            refused.append(cidr)
    if refused:
        raise build_invalid_parameter_error(
            f"The following CIDRs are not allowed in publicAccessCidrs: [{', '.join(refused)}]", clusterName=cluster
        )
    return cidrs


def create_cluster_security_group(ec2: Any, cluster: str, vpc_id: str, suffix: str) -> str:
    """Create the cluster security group and return its id.

    The group allows all traffic between its members, and egress to anywhere. EFA also requires an egress rule with the
    group itself as the destination.
    """
    name = f"eks-cluster-sg-{cluster}-{suffix}"
    group = ec2.create_security_group(
        name,
        "EKS created security group applied to ENI that is attached to EKS Control Plane master nodes, "
        "as well as any managed workloads.",
        vpc_id=vpc_id,
        tags={"Name": name, "aws:eks:cluster-name": cluster, f"kubernetes.io/cluster/{cluster}": "owned"},
    )
    itself: dict[str, Any] = {
        "from_port": None,
        "to_port": None,
        "ip_ranges": [],
        "source_groups": [{"GroupId": group.id}],
        "vpc_id": vpc_id,
    }
    ec2.authorize_security_group_ingress(group.id, "-1", **itself)
    ec2.authorize_security_group_egress(group.id, "-1", **itself)
    return str(group.id)


def delete_cluster_security_group(ec2: Any, group_id: str) -> None:
    """Delete the group, unless an interface or another group's rule still uses it.

    In such cases, EKS also leaves the group behind.
    """
    if any(group.id == group_id for eni in ec2.enis.values() for group in eni.group_set):
        return
    for groups in ec2.groups.values():
        for group in groups.values():
            rules = [*group.ingress_rules, *group.egress_rules]
            if group.id != group_id and any(rule.source_group.get("GroupId") == group_id for rule in rules):
                return
    if ec2.get_security_group_from_id(group_id) is not None:
        ec2.delete_security_group(group_id=group_id)


def create_network_interfaces(ec2: Any, cluster: str, chosen: list[Any], group_ids: list[str]) -> list[str]:
    """Create at most four interfaces for the control plane: first one per zone, then one in each remaining subnet."""
    ordered: list[Any] = []
    for subnet in chosen:
        if subnet.availability_zone not in {other.availability_zone for other in ordered}:
            ordered.append(subnet)
    ordered += [subnet for subnet in chosen if subnet not in ordered]
    created = []
    for subnet in ordered[:NETWORK_INTERFACES_LIMIT]:
        address = subnet.get_available_subnet_ip(None)
        interface = ec2.create_network_interface(subnet, address, group_ids=group_ids, description=f"Amazon EKS {cluster}")
        interface.requester_managed = True
        interface.status = "in-use"
        created.append(str(interface.id))
    return created


def delete_network_interfaces(ec2: Any, ids: list[str]) -> None:
    for interface_id in ids:
        interface = ec2.enis.pop(interface_id, None)
        if interface is not None:
            interface.subnet.del_subnet_ip(interface.private_ip_address)
