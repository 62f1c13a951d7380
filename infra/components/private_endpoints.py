"""VPC endpoints of AWS services, for networks without a route to the internet."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from infra.components.node_security_group import HTTPS, admit_cidr
from infra.naming import COMPONENT, Naming


@dataclass(frozen=True)
class PrivateEndpointsArgs:
    naming: Naming
    vpc_id: pulumi.Input[str]
    subnet_ids: Sequence[pulumi.Input[str]]
    client_security_group_id: pulumi.Input[str]
    client_cidrs: Sequence[str]
    services: Mapping[str, str]
    """Service, such as `ecr.api` -> full name of its endpoint service."""


class PrivateEndpoints(pulumi.ComponentResource):
    """Creates:
    - an interface endpoint in every zone for each service that nodes and their pods call
    - the endpoints' security group, open on port 443 to nodes and to the given CIDRs: with private DNS, all machines in
      the VPC resolve the services' names to these endpoints
    """

    def __init__(self, name: str, args: PrivateEndpointsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{COMPONENT}:PrivateEndpoints", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        group = aws.ec2.SecurityGroup(
            f"{name}-security-group",
            vpc_id=args.vpc_id,
            description=f"Private endpoints of {args.naming.cluster}",
            tags=args.naming.tags(Name=name),
            opts=child,
        )
        rule = aws.vpc.SecurityGroupIngressRule(
            f"{name}-nodes-ingress",
            security_group_id=group.id,
            referenced_security_group_id=args.client_security_group_id,
            ip_protocol="tcp",
            from_port=HTTPS,
            to_port=HTTPS,
            description="Nodes call AWS",
            tags=args.naming.tags(Name=f"{name}-nodes-ingress"),
            opts=child,
        )
        for cidr in args.client_cidrs:
            purpose = "AWS for a network that the stack names"
            admit_cidr(name, args.naming, group.id, cidr, port=HTTPS, description=purpose, opts=child)
        self._endpoints: list[pulumi.Resource] = [rule]
        self._endpoints += [
            aws.ec2.VpcEndpoint(
                f"{name}-{service}-endpoint",
                vpc_id=args.vpc_id,
                service_name=service_name,
                vpc_endpoint_type="Interface",
                private_dns_enabled=True,
                subnet_ids=list(args.subnet_ids),
                security_group_ids=[group.id],
                tags=args.naming.tags(Name=f"{name}-{service}"),
                opts=child,
            )
            for service, service_name in args.services.items()
        ]
        self.register_outputs({})

    @property
    def endpoints(self) -> Sequence[pulumi.Resource]:
        """VPC endpoints and their ingress rule. In a private network, they must be created before the first
        node and deleted after the last one."""
        return self._endpoints
