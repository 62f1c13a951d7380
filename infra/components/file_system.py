"""Base of the components of shared file systems: the parts that nodes, jobs and outputs use."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pulumi
import pulumi_aws as aws

from infra.boot.ec2_node import Mount
from infra.components import iam
from infra.components.encryption_key import EncryptionKey
from infra.components.iam import Account
from infra.naming import COMPONENT, Naming
from infra.plan.specs import FileSystemSpec


@dataclass(frozen=True)
class FileSystemArgs:
    naming: Naming
    account: Account
    vpc_id: pulumi.Input[str]
    subnets: Mapping[str, Sequence[pulumi.Input[str]]]
    """Maps each zone to its private subnets."""
    nodes: pulumi.Input[str]
    """Security group of the nodes."""


class FileSystem(pulumi.ComponentResource):
    """A shared file system. Subclasses set its attributes."""

    spec: FileSystemSpec
    mount: Mount[pulumi.Input[str]]
    """How nodes mount it."""
    volume: Mapping[str, Any]
    """How pods mount the file system: the source of a PersistentVolume, with mount options."""
    storage_class: Mapping[str, Any] | None = None
    """StorageClass for volumes with a directory of their own, if the CSI driver supports that."""
    mount_policies: Mapping[str, pulumi.Input[str]] = MappingProxyType({})
    """Policies that let a role mount the file system, keyed by name; empty if network access is enough."""
    exports: Mapping[str, pulumi.Input[str]]
    """Outputs of the stack."""
    mounting: list[pulumi.Resource]
    """Resources that must exist before a node mounts the file system, and until the last node and pod have unmounted it."""

    def __init__(
        self, token: str, name: str, spec: FileSystemSpec, args: FileSystemArgs, opts: pulumi.ResourceOptions | None
    ) -> None:
        super().__init__(f"{COMPONENT}:{token}", name, None, opts)
        self._name, self._args, self.spec = name, args, spec
        self._child = pulumi.ResourceOptions(parent=self)
        self.mounting = []

    def _create_key(self, purpose: str, service: str) -> EncryptionKey:
        policy = iam.to_json(iam.build_file_system_key_policy(self._args.account, service))
        return EncryptionKey(f"{self._name}-key", self._args.naming, purpose, policy, self._child)

    def _create_security_group(self, description: str) -> aws.ec2.SecurityGroup:
        return aws.ec2.SecurityGroup(
            f"{self._name}-security-group",
            vpc_id=self._args.vpc_id,
            description=description,
            tags=self._args.naming.tags(Name=self._name),
            opts=self._child,
        )

    def _create_security_group_rule(
        self,
        name: str,
        group: pulumi.Input[str],
        peer: pulumi.Input[str],
        ports: tuple[int, int],
        description: str,
        rule: type[aws.vpc.SecurityGroupIngressRule | aws.vpc.SecurityGroupEgressRule] = aws.vpc.SecurityGroupIngressRule,
    ) -> pulumi.Resource:
        """Allow TCP traffic between the security groups `group` and `peer`."""
        return rule(
            name,
            security_group_id=group,
            referenced_security_group_id=peer,
            ip_protocol="tcp",
            from_port=ports[0],
            to_port=ports[1],
            description=description,
            tags=self._args.naming.tags(Name=name),
            opts=self._child,
        )
