"""Security group of all nodes: ingress and egress. Also contains the rule with which any group admits addresses from
the stack's settings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_aws as aws

from infra.components.children import build_child_args
from infra.naming import ANYWHERE, COMPONENT, Naming

HTTPS: Final = 443
ALL_PROTOCOLS: Final = "-1"
AMONG_NODES: Final = "All traffic among nodes: EFA, NCCL, MPI, SSH, pods"


@dataclass(frozen=True)
class NodeSecurityGroupArgs:
    naming: Naming
    vpc_id: pulumi.Input[str]
    egress_cidrs: Sequence[str]
    """`0.0.0.0/0` if nodes reach registries and AWS over NAT; the VPC's addresses in a private network."""
    egress_prefix_lists: Mapping[str, pulumi.Input[str]]
    """Prefix lists of AWS services that a private network reaches through gateway endpoints, keyed by service name."""


class NodeSecurityGroup(pulumi.ComponentResource):
    """Creates the security group of all nodes, which allows
    - all traffic among its members, ingress and egress: EFA requires both, and an egress rule to 0.0.0.0/0 is not
      enough (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start.html)
    - egress to everything that the network can reach
    - no other ingress: the control plane uses the cluster security group
    """

    def __init__(self, name: str, args: NodeSecurityGroupArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{COMPONENT}:NodeSecurityGroup", name, None, opts)
        self._name, self._naming = name, args.naming
        group = aws.ec2.SecurityGroup(
            **build_child_args(self, args.naming, name), vpc_id=args.vpc_id, description=f"Nodes of {args.naming.cluster}"
        )
        self.id = group.id
        ingress = aws.vpc.SecurityGroupIngressRule(
            **build_child_args(self, args.naming, f"{name}-self-ingress"),
            security_group_id=self.id,
            referenced_security_group_id=self.id,
            ip_protocol=ALL_PROTOCOLS,
            description=AMONG_NODES,
        )
        self.rules: list[pulumi.Resource] = [ingress]
        """The rules must be created before the first node and deleted after the last one."""
        self._add_egress_rule("self", AMONG_NODES, to_group=self.id)
        for cidr in args.egress_cidrs:
            purpose = "Images, packages and AWS over NAT" if cidr == ANYWHERE else "Endpoints, file system and control plane"
            self._add_egress_rule(cidr, purpose, to_cidr=cidr)
        for service, prefix_list in args.egress_prefix_lists.items():
            self._add_egress_rule(service, f"{service} through its gateway endpoint", to_prefix_list=prefix_list)
        self.register_outputs({"id": self.id})

    def _add_egress_rule(
        self,
        key: str,
        description: str,
        *,
        to_group: pulumi.Input[str] | None = None,
        to_cidr: str | None = None,
        to_prefix_list: pulumi.Input[str] | None = None,
    ) -> None:
        port = HTTPS if to_prefix_list is not None else None
        rule = aws.vpc.SecurityGroupEgressRule(
            **build_child_args(self, self._naming, f"{self._name}-{key}-egress"),
            security_group_id=self.id,
            referenced_security_group_id=to_group,
            cidr_ipv4=to_cidr,
            prefix_list_id=to_prefix_list,
            ip_protocol=ALL_PROTOCOLS if port is None else "tcp",
            from_port=port,
            to_port=port,
            description=description,
        )
        self.rules.append(rule)


def create_ingress_rule(
    name: str,
    naming: Naming,
    security_group_id: pulumi.Input[str],
    cidr: str,
    *,
    port: int,
    description: str,
    opts: pulumi.ResourceOptions,
) -> aws.vpc.SecurityGroupIngressRule:
    """Return a new rule that admits a CIDR to one TCP port of a security group's members."""
    key = f"{name}-{cidr}-ingress"
    return aws.vpc.SecurityGroupIngressRule(
        key,
        security_group_id=security_group_id,
        cidr_ipv4=cidr,
        ip_protocol="tcp",
        from_port=port,
        to_port=port,
        description=description,
        tags=naming.tags(Name=key),
        opts=opts,
    )
