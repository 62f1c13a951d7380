"""FSx for Lustre file system for data sets and checkpoints."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import pulumi
import pulumi_aws as aws

from infra.components import iam
from infra.components.encryption_key import EncryptionKey, EncryptionKeyArgs
from infra.components.iam import Account
from infra.naming import COMPONENT, Naming

PORTS: Final = ((988, 988), (1018, 1023))
"""https://docs.aws.amazon.com/fsx/latest/LustreGuide/limit-access-security-groups.html"""
LUSTRE_VERSION: Final = "2.15"


@dataclass(frozen=True)
class LinkedBucket:
    """S3 data linked to a directory of the file system."""

    path: str
    directory: str
    imports: Sequence[str]
    exports: Sequence[str]


@dataclass(frozen=True)
class UserKey:
    """A KMS key that the stack does not manage."""

    arn: str


@dataclass(frozen=True)
class NewLustre:
    """Settings of a new file system."""

    vpc_id: pulumi.Input[str]
    subnet_id: pulumi.Input[str]
    client_security_group_id: pulumi.Input[str]
    deployment: str
    size_gib: int
    throughput_per_tib: int | None
    """None for SCRATCH_2, whose throughput is fixed."""
    compression: bool
    key: Literal["own", "aws"] | UserKey
    """Key that encrypts the file system: the stack's own, AWS's (SCRATCH_2), or the user's."""
    linked: LinkedBucket | None
    protect: bool


@dataclass(frozen=True)
class ExistingLustre:
    """An existing file system. The stack changes only its security group `admitting_group`, if given."""

    id: str
    dns_name: str
    mount_name: str
    admitting_group: str | None
    """The file system's security group, to which the stack adds rules that admit the nodes."""
    client_security_group_id: pulumi.Input[str]


@dataclass(frozen=True)
class LustreStorageArgs:
    naming: Naming
    account: Account
    source: NewLustre | ExistingLustre


class LustreStorage(pulumi.ComponentResource):
    """Creates:
    - an FSx for Lustre file system, unless an existing one is given; PERSISTENT_2 is encrypted with a new key or the
      user's key
    - a security group that admits the nodes and the file servers; for an existing file system, on request, only rules
      that admit the nodes
    - a data repository association that imports objects of a bucket as files and exports files as objects
    """

    def __init__(self, name: str, args: LustreStorageArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{COMPONENT}:LustreStorage", name, None, opts)
        self._name, self._args = name, args
        self._child = pulumi.ResourceOptions(parent=self)
        self._mounting: list[pulumi.Resource] = []
        source = args.source
        self._file_system_id: pulumi.Output[str]
        self._dns_name: pulumi.Output[str]
        self._mount_name: pulumi.Output[str]
        if isinstance(source, ExistingLustre):
            self._file_system_id = pulumi.Output.from_input(source.id)
            self._dns_name = pulumi.Output.from_input(source.dns_name)
            self._mount_name = pulumi.Output.from_input(source.mount_name)
            if source.admitting_group is not None:
                self._admit_nodes(source.admitting_group, source.client_security_group_id)
        else:
            file_system = self._create_file_system(source)
            self._file_system_id, self._dns_name, self._mount_name = file_system.id, file_system.dns_name, file_system.mount_name
            self._mounting.append(file_system)
            if source.linked is not None:
                self._link(file_system, source.linked)
        self.register_outputs({"fileSystemId": self.file_system_id})

    def _create_file_system(self, new: NewLustre) -> aws.fsx.LustreFileSystem:
        naming, name = self._args.naming, self._name
        group, rules = self._create_security_group(new)
        return aws.fsx.LustreFileSystem(
            f"{name}-file-system",
            subnet_ids=new.subnet_id,
            security_group_ids=[group.id],
            deployment_type=new.deployment,
            storage_capacity=new.size_gib,
            per_unit_storage_throughput=new.throughput_per_tib,
            data_compression_type="LZ4" if new.compression else "NONE",
            file_system_type_version=LUSTRE_VERSION,
            kms_key_id=self._key(new),
            tags=naming.tags(Name=f"{name}-file-system"),
            # FSx checks at creation that the file servers can reach each other.
            opts=pulumi.ResourceOptions(parent=self, protect=new.protect, depends_on=rules),
        )

    def _key(self, new: NewLustre) -> pulumi.Input[str] | None:
        if isinstance(new.key, UserKey):
            return new.key.arn
        if new.key == "aws":
            return None
        policy = iam.to_json(iam.file_system_key(self._args.account, "fsx"))
        return EncryptionKey(
            f"{self._name}-key", EncryptionKeyArgs(self._args.naming, "Lustre file system", policy), self._child
        ).arn

    def _create_security_group(self, new: NewLustre) -> tuple[aws.ec2.SecurityGroup, list[pulumi.Resource]]:
        """Create the security group of the file servers. Return it with the rules for traffic between the servers."""
        naming, name = self._args.naming, self._name
        group = aws.ec2.SecurityGroup(
            f"{name}-security-group",
            vpc_id=new.vpc_id,
            description=f"Lustre file system of {naming.cluster}",
            tags=naming.tags(Name=name),
            opts=self._child,
        )
        servers: list[pulumi.Resource] = []
        for ports in PORTS:
            servers.append(self._ingress("servers", group.id, group.id, ports, "File servers reach each other"))
            servers.append(self._egress("servers", group.id, group.id, ports, "File servers reach each other"))
        self._admit_nodes(group.id, new.client_security_group_id)
        for ports in PORTS:
            # File servers also open connections to clients, for example to recall locks.
            out = self._egress("nodes", group.id, new.client_security_group_id, ports, "File servers reach nodes")
            back = self._ingress("from-servers", new.client_security_group_id, group.id, ports, "File servers reach nodes")
            self._mounting += [out, back]
        return group, servers

    def _admit_nodes(self, group: pulumi.Input[str], nodes: pulumi.Input[str]) -> None:
        for ports in PORTS:
            self._mounting.append(self._ingress("nodes", group, nodes, ports, "Nodes mount the Lustre file system"))

    def _ingress(
        self, key: str, group: pulumi.Input[str], source: pulumi.Input[str], ports: tuple[int, int], description: str
    ) -> pulumi.Resource:
        name = f"{self._name}-{key}-{ports[0]}-ingress"
        return aws.vpc.SecurityGroupIngressRule(
            name,
            security_group_id=group,
            referenced_security_group_id=source,
            ip_protocol="tcp",
            from_port=ports[0],
            to_port=ports[1],
            description=description,
            tags=self._args.naming.tags(Name=name),
            opts=self._child,
        )

    def _egress(
        self, key: str, group: pulumi.Input[str], target: pulumi.Input[str], ports: tuple[int, int], description: str
    ) -> pulumi.Resource:
        name = f"{self._name}-{key}-{ports[0]}-egress"
        return aws.vpc.SecurityGroupEgressRule(
            name,
            security_group_id=group,
            referenced_security_group_id=target,
            ip_protocol="tcp",
            from_port=ports[0],
            to_port=ports[1],
            description=description,
            tags=self._args.naming.tags(Name=name),
            opts=self._child,
        )

    def _link(self, file_system: aws.fsx.LustreFileSystem, linked: LinkedBucket) -> None:
        policies: aws.fsx.DataRepositoryAssociationS3ArgsDict = {}
        if linked.imports:
            policies["auto_import_policy"] = {"events": list(linked.imports)}
        if linked.exports:
            policies["auto_export_policy"] = {"events": list(linked.exports)}
        association = aws.fsx.DataRepositoryAssociation(
            f"{self._name}-data",
            file_system_id=file_system.id,
            data_repository_path=linked.path,
            file_system_path=linked.directory,
            batch_import_meta_data_on_create=True,
            s3=policies,
            tags=self._args.naming.tags(Name=f"{self._name}-data"),
            # A directory can be linked to only one bucket at a time.
            opts=pulumi.ResourceOptions(parent=self, delete_before_replace=True),
        )
        self._mounting.append(association)

    @property
    def file_system_id(self) -> pulumi.Output[str]:
        return self._file_system_id

    @property
    def dns_name(self) -> pulumi.Output[str]:
        return self._dns_name

    @property
    def mount_name(self) -> pulumi.Output[str]:
        return self._mount_name

    @property
    def mounting(self) -> Sequence[pulumi.Resource]:
        """Resources of the stack that must exist before a node mounts the file system, and until the last node and pod
        have unmounted it."""
        return self._mounting
