"""VPC created by the stack."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pulumi
import pulumi_aws as aws

from infra.components import endpoint_policies, iam, trust_policies
from infra.components.children import build_child_args
from infra.components.iam import Account
from infra.naming import ANYWHERE, COMPONENT, PRIVATE_SUBNET_TAG, PUBLIC_SUBNET_TAG, Naming, build_cluster_tag
from infra.plan.subnet_cidrs import compute_zone_subnets


@dataclass(frozen=True)
class Subnets:
    """A network as other components use it: the stack's own VPC, or an existing one, which the stack does not change
    and which must already provide the egress that nodes need."""

    vpc_id: pulumi.Input[str]
    private_subnets: Mapping[str, Sequence[pulumi.Input[str]]]
    """Maps each zone to the subnets for nodes."""
    public_subnets: Mapping[str, Sequence[pulumi.Input[str]]] = field(default_factory=dict)
    reachable_cidrs: Sequence[str] = (ANYWHERE,)
    """Addresses that nodes can reach: all addresses if the network has a route to the internet, otherwise only the VPC."""
    reachable_prefix_lists: Mapping[str, pulumi.Input[str]] = field(default_factory=dict)
    """Prefix lists of AWS services that nodes can also reach, keyed by service name."""
    routes: Sequence[pulumi.Resource] = ()
    """Resources that provide egress for instances in private subnets."""


@dataclass(frozen=True)
class NetworkArgs:
    naming: Naming
    account: Account
    cidr: str
    zones: Sequence[str]
    nat_zones: Sequence[str]
    """Zones with a NAT gateway; the other zones use the gateway of the first one. If empty, the network is private."""
    # flow logs
    logs_key_arn: pulumi.Input[str]
    log_retention_days: int


class Network(pulumi.ComponentResource):
    """Creates:
    - a VPC with flow logs and a default security group without rules
    - a private subnet per zone and, unless the network is private, a public one
    - an internet gateway and NAT gateways, unless the network is private
    - a gateway endpoint for S3, so that downloads of image layers cause no NAT charges; principals of other accounts
      may only read
    """

    def __init__(self, name: str, args: NetworkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{COMPONENT}:Network", name, None, opts)
        self._name, self._args = name, args
        self._child = pulumi.ResourceOptions(parent=self)
        self._vpc = self._create_vpc()
        self._private = {zone: self._create_subnet(zone, public=False) for zone in args.zones}
        self._public: dict[str, aws.ec2.Subnet] = {}
        self._routes: list[pulumi.Resource] = []
        private_tables = {zone: self._create_route_table(f"private-{zone}", self._private[zone]) for zone in args.zones}
        if args.nat_zones:
            self._create_internet_access(private_tables)
        s3 = self._create_s3_endpoint(private_tables)
        self._create_flow_logs()
        self.subnets = Subnets(
            self._vpc.id,
            {zone: [subnet.id] for zone, subnet in self._private.items()},
            {zone: [subnet.id] for zone, subnet in self._public.items()},
            reachable_cidrs=[ANYWHERE] if args.nat_zones else [args.cidr],
            reachable_prefix_lists={} if args.nat_zones else {"s3": s3.prefix_list_id},
            routes=self._routes,
        )
        self.register_outputs({"vpcId": self._vpc.id})

    def _create_vpc(self) -> aws.ec2.Vpc:
        naming = self._args.naming
        vpc = aws.ec2.Vpc(
            **build_child_args(self, naming, f"{self._name}-vpc"),
            cidr_block=self._args.cidr,
            enable_dns_support=True,
            enable_dns_hostnames=True,  # the private EKS endpoint, interface endpoints and EFS need both DNS settings
        )
        aws.ec2.DefaultSecurityGroup(
            f"{self._name}-default-security-group",
            vpc_id=vpc.id,
            tags=naming.tags(Name=f"{self._name}-default-closed"),
            opts=self._child,
        )
        return vpc

    def _create_subnet(self, zone: str, *, public: bool) -> aws.ec2.Subnet:
        naming, kind = self._args.naming, "public" if public else "private"
        addresses = compute_zone_subnets(self._args.cidr, zone)
        tags = {**build_cluster_tag(naming.cluster), **(PUBLIC_SUBNET_TAG if public else PRIVATE_SUBNET_TAG)}
        return aws.ec2.Subnet(
            **build_child_args(self, naming, f"{self._name}-{kind}-{zone}", "subnet", tags=tags),
            vpc_id=self._vpc.id,
            availability_zone=zone,
            cidr_block=addresses.public if public else addresses.private,
            map_public_ip_on_launch=False,
        )

    def _create_route_table(self, key: str, *subnets: aws.ec2.Subnet) -> aws.ec2.RouteTable:
        """Create a route table. Each private subnet has its own route table, so that new NAT gateways change only routes."""
        table = aws.ec2.RouteTable(
            **build_child_args(self, self._args.naming, f"{self._name}-{key}", "route-table"), vpc_id=self._vpc.id
        )
        for subnet in subnets:
            self._associate_route_table(key, table, subnet)
        return table

    def _associate_route_table(self, key: str, table: aws.ec2.RouteTable, subnet: aws.ec2.Subnet) -> None:
        association = aws.ec2.RouteTableAssociation(
            f"{self._name}-{key}-route-table-association", route_table_id=table.id, subnet_id=subnet.id, opts=self._child
        )
        self._routes.append(association)

    def _create_internet_access(self, private_tables: Mapping[str, aws.ec2.RouteTable]) -> None:
        args, name = self._args, self._name
        gateway = aws.ec2.InternetGateway(**build_child_args(self, args.naming, f"{name}-internet-gateway"), vpc_id=self._vpc.id)
        public_table = self._create_route_table("public")
        internet = aws.ec2.Route(
            f"{name}-public-internet-route",
            route_table_id=public_table.id,
            destination_cidr_block=ANYWHERE,
            gateway_id=gateway.id,
            opts=self._child,
        )
        for zone in args.zones:
            self._public[zone] = self._create_subnet(zone, public=True)
            self._associate_route_table(f"public-{zone}", public_table, self._public[zone])
        gateways = {zone: self._create_nat_gateway(zone, internet) for zone in args.nat_zones}
        for zone, table in private_tables.items():
            route = aws.ec2.Route(
                f"{name}-private-{zone}-internet-route",
                route_table_id=table.id,
                destination_cidr_block=ANYWHERE,
                nat_gateway_id=gateways.get(zone, gateways[args.nat_zones[0]]).id,
                opts=self._child,
            )
            self._routes.append(route)

    def _create_nat_gateway(self, zone: str, internet: pulumi.Resource) -> aws.ec2.NatGateway:
        naming, name = self._args.naming, f"{self._name}-nat-{zone}"
        address = aws.ec2.Eip(**build_child_args(self, naming, name, "address"), domain="vpc")
        return aws.ec2.NatGateway(
            # EC2 rejects a NAT gateway in a VPC without an internet route, and the route must outlive the gateway.
            **build_child_args(self, naming, name, "gateway", after=[internet]),
            subnet_id=self._public[zone].id,
            allocation_id=address.id,
        )

    def _create_s3_endpoint(self, private_tables: Mapping[str, aws.ec2.RouteTable]) -> aws.ec2.VpcEndpoint:
        endpoint = aws.ec2.VpcEndpoint(
            **build_child_args(self, self._args.naming, f"{self._name}-s3", "endpoint"),
            vpc_id=self._vpc.id,
            service_name=f"com.amazonaws.{self._args.account.region}.s3",
            vpc_endpoint_type="Gateway",
            policy=iam.to_json(
                endpoint_policies.build_s3_endpoint_policy(self._args.account, has_internet=bool(self._args.nat_zones))
            ),
            route_table_ids=[table.id for table in private_tables.values()],
        )
        self._routes.append(endpoint)
        return endpoint

    def _create_flow_logs(self) -> None:
        args, name = self._args, self._name
        logs = f"{name}-flow-logs"
        group = aws.cloudwatch.LogGroup(
            **build_child_args(self, args.naming, logs, "group"),
            name=args.naming.flow_logs,
            retention_in_days=args.log_retention_days,
            kms_key_id=args.logs_key_arn,
        )
        role = aws.iam.Role(
            **build_child_args(self, args.naming, logs, "role"),
            description=f"Delivers the flow logs of {args.naming.cluster}",
            assume_role_policy=iam.to_json(trust_policies.build_flow_log_trust_policy(args.account)),
        )
        delivery = aws.iam.RolePolicy(
            f"{name}-flow-logs-policy",
            role=role.name,
            policy=group.arn.apply(lambda arn: iam.to_json(iam.allow_flow_log_delivery(arn))),
            opts=self._child,
        )
        aws.ec2.FlowLog(
            **build_child_args(self, args.naming, f"{name}-flow-log", after=[delivery]),
            vpc_id=self._vpc.id,
            traffic_type="ALL",
            log_destination_type="cloud-watch-logs",
            log_destination=group.arn,
            iam_role_arn=role.arn,
        )
