"""Shared file system for the code, data and checkpoints of all jobs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_aws as aws

from infra.components import iam
from infra.components.encryption_key import EncryptionKey, EncryptionKeyArgs
from infra.components.iam import Account
from infra.naming import COMPONENT, GROUP_ID, SHARED_DIRECTORY, USER_ID, Naming

NFS: Final = 2049
DIRECTORY_MODE: Final = "0775"


@dataclass(frozen=True)
class NewFileSystem:
    """Settings of a new file system."""

    vpc_id: pulumi.Input[str]
    subnets: Mapping[str, pulumi.Input[str]]
    """Zone -> subnet for the zone's mount target."""
    client_security_group_id: pulumi.Input[str]
    infrequent_access_after_days: int | None
    backup: bool
    protect: bool


@dataclass(frozen=True)
class ExistingFileSystem:
    """An existing file system. The stack changes only its security groups in `admitting_groups`."""

    id: str
    admitting_groups: Sequence[str]
    """Security groups of the file system's mount targets. The stack adds a rule that admits the nodes to each group."""
    client_security_group_id: pulumi.Input[str]


@dataclass(frozen=True)
class SharedStorageArgs:
    naming: Naming
    account: Account
    source: NewFileSystem | ExistingFileSystem


class SharedStorage(pulumi.ComponentResource):
    """Creates:
    - an encrypted EFS file system with elastic throughput that rejects unencrypted transport, unless an existing file
      system is given
    - a mount target in each zone, reachable only by nodes; for an existing file system, on request, only the rules that
      make it reachable
    - an access point for jobs, with one directory and the user ID of job images and login users
    """

    def __init__(self, name: str, args: SharedStorageArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{COMPONENT}:SharedStorage", name, None, opts)
        self._name, self._args = name, args
        self._child = pulumi.ResourceOptions(parent=self)
        self._mounting: list[pulumi.Resource] = []
        self._file_system_id: pulumi.Output[str]
        if isinstance(args.source, ExistingFileSystem):
            self._file_system_id = pulumi.Output.from_input(args.source.id)
            for group in args.source.admitting_groups:
                self._admit_nodes(f"{name}-{group}-nodes-ingress", group, args.source.client_security_group_id)
        else:
            self._file_system_id = self._create_file_system(args.source)
        self._access_point = aws.efs.AccessPoint(
            f"{name}-access-point",
            file_system_id=self._file_system_id,
            posix_user={"uid": USER_ID, "gid": GROUP_ID},
            root_directory={
                "path": SHARED_DIRECTORY,
                "creation_info": {"owner_uid": USER_ID, "owner_gid": GROUP_ID, "permissions": DIRECTORY_MODE},
            },
            tags=args.naming.tags(Name=f"{name}-access-point"),
            opts=self._child,
        )
        self.register_outputs({"fileSystemId": self.file_system_id, "accessPointId": self.access_point_id})

    def _create_file_system(self, new: NewFileSystem) -> pulumi.Output[str]:
        naming, name = self._args.naming, self._name
        key = EncryptionKey(
            f"{name}-key",
            EncryptionKeyArgs(naming, "shared file system", iam.to_json(iam.file_system_key(self._args.account))),
            self._child,
        )
        file_system = aws.efs.FileSystem(
            f"{name}-file-system",
            encrypted=True,
            kms_key_id=key.arn,
            performance_mode="generalPurpose",
            throughput_mode="elastic",
            lifecycle_policies=_lifecycle(new.infrequent_access_after_days),
            tags=naming.tags(Name=f"{name}-file-system"),
            opts=pulumi.ResourceOptions(parent=self, protect=new.protect),
        )
        aws.efs.FileSystemPolicy(
            f"{name}-policy",
            file_system_id=file_system.id,
            policy=file_system.arn.apply(lambda arn: iam.to_json(iam.encrypted_file_system(arn))),
            opts=self._child,
        )
        if new.backup:
            aws.efs.BackupPolicy(
                f"{name}-backup", file_system_id=file_system.id, backup_policy={"status": "ENABLED"}, opts=self._child
            )
        self._create_mount_targets(new, file_system)
        return file_system.id

    def _create_mount_targets(self, new: NewFileSystem, file_system: aws.efs.FileSystem) -> None:
        naming, name = self._args.naming, self._name
        group = aws.ec2.SecurityGroup(
            f"{name}-security-group",
            vpc_id=new.vpc_id,
            description=f"Shared file system of {naming.cluster}",
            tags=naming.tags(Name=name),
            opts=self._child,
        )
        self._admit_nodes(f"{name}-nodes-ingress", group.id, new.client_security_group_id)
        for zone, subnet_id in new.subnets.items():
            target = aws.efs.MountTarget(
                f"{name}-{zone}-mount-target",
                file_system_id=file_system.id,
                subnet_id=subnet_id,
                security_groups=[group.id],
                opts=self._child,
            )
            self._mounting.append(target)

    def _admit_nodes(self, name: str, group: pulumi.Input[str], nodes: pulumi.Input[str]) -> None:
        """Add a rule that lets the security group `nodes` reach mount targets in the security group `group`."""
        rule = aws.vpc.SecurityGroupIngressRule(
            name,
            security_group_id=group,
            referenced_security_group_id=nodes,
            ip_protocol="tcp",
            from_port=NFS,
            to_port=NFS,
            description="Nodes mount the file system",
            tags=self._args.naming.tags(Name=name),
            opts=self._child,
        )
        self._mounting.append(rule)

    @property
    def file_system_id(self) -> pulumi.Output[str]:
        return self._file_system_id

    @property
    def mounting(self) -> Sequence[pulumi.Resource]:
        """Mount targets and ingress rules of the stack, which must exist before a node mounts the file system, and
        until the last node and pod have unmounted it."""
        return self._mounting

    @property
    def access_point_id(self) -> pulumi.Output[str]:
        return self._access_point.id


def _lifecycle(days: int | None) -> list[aws.efs.FileSystemLifecyclePolicyArgsDict]:
    """Return rules that move files to cheaper storage after `days` days without access, and back on the next access."""
    if days is None:
        return []
    unit = "DAY" if days == 1 else "DAYS"
    return [{"transition_to_ia": f"AFTER_{days}_{unit}"}, {"transition_to_primary_storage_class": "AFTER_1_ACCESS"}]
