"""EC2 queries: zones, instance types, an existing VPC, reservations, placement groups, images."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

from infra.facts.clients import Clients, build_filter, is_error, read_pages
from infra.facts.instance_types import Architecture, InstanceType
from infra.facts.model import CapacityReservation, EndpointService, NodeTemplate, OwnVpc, Subnet, Vpc, Zone
from infra.naming import ZONE_LETTERS

NOT_FOR_EKS = frozenset({"use1-az3", "usw1-az2", "cac1-az3"})
"""IDs of zones where EKS does not accept control plane subnets:
https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html"""


_TARGETS_OUTSIDE = (
    *("NatGatewayId", "TransitGatewayId", "VpcPeeringConnectionId", "InstanceId", "NetworkInterfaceId"),
    *("LocalGatewayId", "CarrierGatewayId", "CoreNetworkArn"),
)
"""https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_Route.html"""


def list_zones(clients: Clients) -> tuple[Zone, ...]:
    described = clients.ec2.describe_availability_zones()["AvailabilityZones"]
    usable = [
        Zone(zone["ZoneName"], zone["ZoneId"])
        for zone in described
        if zone["State"] == "available"
        and zone.get("ZoneType", "availability-zone") == "availability-zone"
        and zone["ZoneId"] not in NOT_FOR_EKS
        and zone["ZoneName"][-1] in ZONE_LETTERS
    ]
    return tuple(sorted(usable, key=lambda zone: zone.name))


def read_instance_types(clients: Clients, names: Collection[str]) -> dict[str, InstanceType]:
    """Return the instance types with these names. Uses a filter, which ignores unknown names, unlike the parameter
    `InstanceTypes`."""
    described = read_pages(
        clients.ec2, "describe_instance_types", "InstanceTypes", Filters=[build_filter("instance-type", names)]
    )
    return {each["InstanceType"]: InstanceType.from_ec2(each) for each in described if each["InstanceType"] in names}


def list_instance_type_names(clients: Clients) -> frozenset[str]:
    offered = read_pages(clients.ec2, "describe_instance_type_offerings", "InstanceTypeOfferings", LocationType="region")
    return frozenset(offering["InstanceType"] for offering in offered)


def list_zone_offerings(clients: Clients, names: Collection[str]) -> dict[str, frozenset[str]]:
    offered = read_pages(
        clients.ec2,
        "describe_instance_type_offerings",
        "InstanceTypeOfferings",
        LocationType="availability-zone",
        Filters=[build_filter("instance-type", names)],
    )
    zones_by_type: dict[str, set[str]] = {name: set() for name in names}
    for offering in offered:
        zones_by_type.setdefault(offering["InstanceType"], set()).add(offering["Location"])
    return {name: frozenset(zones) for name, zones in zones_by_type.items()}


def read_vpc(clients: Clients, vpc_id: str) -> Vpc | None:
    described = clients.ec2.describe_vpcs(Filters=[build_filter("vpc-id", [vpc_id])])["Vpcs"]
    if not described:
        return None
    blocks = [block["CidrBlock"] for block in described[0].get("CidrBlockAssociationSet", ())] or [described[0]["CidrBlock"]]
    support = clients.ec2.describe_vpc_attribute(VpcId=vpc_id, Attribute="enableDnsSupport")
    hostnames = clients.ec2.describe_vpc_attribute(VpcId=vpc_id, Attribute="enableDnsHostnames")
    return Vpc(vpc_id, tuple(blocks), support["EnableDnsSupport"]["Value"], hostnames["EnableDnsHostnames"]["Value"])


def read_subnets(clients: Clients, ids: Collection[str]) -> dict[str, Subnet]:
    """Return the subnets with these IDs. Omits IDs that do not exist."""
    described = read_pages(clients.ec2, "describe_subnets", "Subnets", Filters=[build_filter("subnet-id", ids)])
    vpcs = sorted({subnet["VpcId"] for subnet in described})
    tables = (
        read_pages(clients.ec2, "describe_route_tables", "RouteTables", Filters=[build_filter("vpc-id", vpcs)]) if vpcs else []
    )
    routes = {subnet["SubnetId"]: _find_subnet_routes(subnet, tables) for subnet in described}
    return {
        subnet["SubnetId"]: Subnet(
            id=subnet["SubnetId"],
            vpc_id=subnet["VpcId"],
            zone=subnet["AvailabilityZone"],
            cidr=subnet["CidrBlock"],
            free_addresses=subnet["AvailableIpAddressCount"],
            is_public=any(_is_internet_route(route) for route in routes[subnet["SubnetId"]]),
            has_route_out=any(_leaves_vpc(route) for route in routes[subnet["SubnetId"]]),
        )
        for subnet in described
    }


def _find_subnet_routes(subnet: Any, tables: Iterable[Any]) -> list[Any]:
    """Return the routes of the subnet's own route table or, if the subnet has none, of the VPC's main route table."""
    main, own = None, None
    for table in tables:
        if table["VpcId"] != subnet["VpcId"]:
            continue
        for association in table.get("Associations", ()):
            main = table if association.get("Main") else main
            own = table if association.get("SubnetId") == subnet["SubnetId"] else own
    return list((own or main or {}).get("Routes", ()))


def _is_internet_route(route: Any) -> bool:
    return str(route.get("GatewayId", "")).startswith("igw-")


def _leaves_vpc(route: Any) -> bool:
    """True if the route leads out of the VPC, but not through an internet gateway.

    Blackhole routes do not count, because they drop traffic.
    """
    if route.get("State", "active") != "active":
        return False
    return str(route.get("GatewayId", "")).startswith("vgw-") or any(route.get(target) for target in _TARGETS_OUTSIDE)


def list_vpc_endpoints(clients: Clients, vpc_id: str) -> frozenset[str]:
    """Return the services that have an available VPC endpoint in the VPC: `ecr.api` stands for
    `com.amazonaws.us-west-2.ecr.api`."""
    described = read_pages(clients.ec2, "describe_vpc_endpoints", "VpcEndpoints", Filters=[build_filter("vpc-id", [vpc_id])])
    names = [endpoint["ServiceName"] for endpoint in described if endpoint["State"].lower() == "available"]
    return frozenset(name.partition(f".{clients.region}.")[2] for name in names)


def list_endpoint_services(clients: Clients) -> dict[str, EndpointService]:
    """Return AWS's services that offer interface endpoints, keyed by the part of the name after the Region."""
    kinds = [build_filter("service-type", ["Interface"])]
    described = read_pages(clients.ec2, "describe_vpc_endpoint_services", "ServiceDetails", Filters=kinds)
    services = {}
    for service in described:
        prefix, _, short = service["ServiceName"].partition(f".{clients.region}.")
        if short and prefix.endswith("amazonaws"):  # excludes com.amazonaws.vpce.*, which are services of other accounts
            services[short] = EndpointService(service["ServiceName"], frozenset(service["AvailabilityZones"]))
    return services


def list_stack_zones(clients: Clients, tag: str, stack: str) -> tuple[str, ...]:
    """Return the zones of the subnets that the stack created."""
    described = read_pages(clients.ec2, "describe_subnets", "Subnets", Filters=[build_filter(f"tag:{tag}", [stack])])
    return tuple(sorted({subnet["AvailabilityZone"] for subnet in described}))


def list_stack_vpcs(clients: Clients, tag: str, stack: str) -> tuple[OwnVpc, ...]:
    """Return the stack's VPCs. After an interrupted operation, the stack can have two VPCs until the next `up`."""
    described = read_pages(clients.ec2, "describe_vpcs", "Vpcs", Filters=[build_filter(f"tag:{tag}", [stack])])
    return tuple(OwnVpc(vpc["VpcId"], vpc["CidrBlock"]) for vpc in described)


def read_subnet_zones(clients: Clients, ids: Collection[str]) -> dict[str, str]:
    described = read_pages(clients.ec2, "describe_subnets", "Subnets", Filters=[build_filter("subnet-id", ids)]) if ids else []
    return {subnet["SubnetId"]: subnet["AvailabilityZone"] for subnet in described}


def read_reservations(clients: Clients, ids: Collection[str]) -> dict[str, CapacityReservation]:
    """Return the reservations with these IDs. Omits IDs that do not exist."""
    return {each.id: each for each in (_read_reservation(clients, reservation_id) for reservation_id in sorted(ids)) if each}


def _read_reservation(clients: Clients, reservation_id: str) -> CapacityReservation | None:
    try:
        described = clients.ec2.describe_capacity_reservations(CapacityReservationIds=[reservation_id])["CapacityReservations"]
    except clients.ec2.exceptions.ClientError as error:
        if is_error(error, "InvalidCapacityReservationId.NotFound", "InvalidCapacityReservationId.Malformed"):
            return None
        raise
    return convert_reservation(described[0], clients.now()) if described else None


def convert_reservation(described: Any, read_at: datetime) -> CapacityReservation:
    group: str = described.get("PlacementGroupArn") or ""
    return CapacityReservation(
        id=described["CapacityReservationId"],
        kind="capacity-block" if described.get("ReservationType") == "capacity-block" else "default",
        state=described["State"],
        instance_type=described["InstanceType"],
        zone=described["AvailabilityZone"],
        total=described["TotalInstanceCount"],
        available=described["AvailableInstanceCount"],
        placement_group=group.rpartition("/")[2] or None,
        start=described.get("StartDate"),
        end=described.get("EndDate"),
        read_at=read_at,
    )


def list_instances(clients: Clients, *filters: Mapping[str, Any]) -> list[Any]:
    reservations = read_pages(clients.ec2, "describe_instances", "Reservations", Filters=list(filters))
    return [instance for reservation in reservations for instance in reservation["Instances"]]


def read_placement_groups(clients: Clients, names: Collection[str]) -> dict[str, str]:
    """Return the strategies of the placement groups with these names. Omits names that do not exist."""
    groups = clients.ec2.describe_placement_groups(Filters=[build_filter("group-name", names)])["PlacementGroups"]
    return {group["GroupName"]: group["Strategy"] for group in groups if group["State"] == "available"}


def read_image_architectures(clients: Clients, ids: Collection[str]) -> dict[str, Architecture]:
    """Return the architectures of the AMIs with these IDs. Omits IDs that do not exist."""
    described = clients.ec2.describe_images(Filters=[build_filter("image-id", ids)])["Images"]
    return {image["ImageId"]: image["Architecture"] for image in described}


def read_launch_template_data(clients: Clients, template_id: str, version: str) -> dict[str, Any]:
    """Return the data of a launch template version; empty if the version does not exist."""
    arguments = {"LaunchTemplateId": template_id, "Versions": [version]}
    versions = clients.ec2.describe_launch_template_versions(**arguments)["LaunchTemplateVersions"]
    return dict(versions[0]["LaunchTemplateData"]) if versions else {}


def read_node_template(clients: Clients, template_id: str, version: str) -> NodeTemplate:
    data = read_launch_template_data(clients, template_id, version)
    target = data.get("CapacityReservationSpecification", {}).get("CapacityReservationTarget", {})
    volumes = [mapping["Ebs"].get("VolumeSize") for mapping in data.get("BlockDeviceMappings", ()) if "Ebs" in mapping]
    return NodeTemplate(
        instance_type=data.get("InstanceType"),
        image_id=data.get("ImageId"),
        reservation_id=target.get("CapacityReservationId"),
        root_volume_gib=next(iter(volumes), None),
        interfaces=tuple(
            (each.get("NetworkCardIndex", 0), each["DeviceIndex"], each.get("InterfaceType", "interface"))
            for each in data.get("NetworkInterfaces", ())
        ),
        user_data=data.get("UserData", ""),
    )
