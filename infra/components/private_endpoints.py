"""VPC endpoints of AWS services, for networks without a route to the internet."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from infra.components.children import build_child_args
from infra.components.node_security_group import HTTPS, create_ingress_rule
from infra.naming import COMPONENT, Naming


@dataclass(frozen=True)
class PrivateEndpointsArgs:
    naming: Naming
    vpc_id: pulumi.Input[str]
    subnet_ids: Sequence[pulumi.Input[str]]
    client_security_group_id: pulumi.Input[str]
    client_cidrs: Sequence[str]
    services: Mapping[str, str]
    """Maps each service, such as `ecr.api`, to the full name of its endpoint service."""


class PrivateEndpoints(pulumi.ComponentResource):
    """Creates:
    - an interface endpoint in every zone for each service that nodes and their pods call
    - the endpoints' security group, open on port 443 to nodes and to the given CIDRs: with private DNS, all machines in
      the VPC resolve the services' names to these endpoints
    """

    def __init__(self, name: str, args: PrivateEndpointsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{COMPONENT}:PrivateEndpoints", name, None, opts)
        naming = args.naming
        group = aws.ec2.SecurityGroup(
            **build_child_args(self, naming, name, "security-group"),
            vpc_id=args.vpc_id,
            description=f"Private endpoints of {naming.cluster}",
        )
        rule = aws.vpc.SecurityGroupIngressRule(
            **build_child_args(self, naming, f"{name}-nodes-ingress"),
            security_group_id=group.id,
            referenced_security_group_id=args.client_security_group_id,
            ip_protocol="tcp",
            from_port=HTTPS,
            to_port=HTTPS,
            description="Nodes call AWS",
        )
        options = pulumi.ResourceOptions(parent=self)
        for cidr in args.client_cidrs:
            purpose = "AWS for a network in the settings of the stack"
            create_ingress_rule(name, naming, group.id, cidr, port=HTTPS, description=purpose, opts=options)
        endpoints = (
            aws.ec2.VpcEndpoint(
                **build_child_args(self, naming, f"{name}-{service}", "endpoint"),
                vpc_id=args.vpc_id,
                service_name=service_name,
                vpc_endpoint_type="Interface",
                private_dns_enabled=True,
                subnet_ids=list(args.subnet_ids),
                security_group_ids=[group.id],
            )
            for service, service_name in args.services.items()
        )
        self.endpoints: Sequence[pulumi.Resource] = [rule, *endpoints]
        """VPC endpoints and their ingress rule. In a private network, they must be created before the first node and
        deleted after the last one."""
        self.register_outputs({})
