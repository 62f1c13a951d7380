"""EFS file system for the code, data and checkpoints of all jobs."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pulumi
import pulumi_aws as aws

from infra.boot.ec2_node import Mount
from infra.components import iam
from infra.components.file_system import FileSystem, FileSystemArgs, VolumeSource
from infra.naming import (
    SHARED_DIRECTORY,
    USER_ID,
    build_claim_class,
    build_claims_directory,
    build_namespace_directory,
    derive_owner_id,
)
from infra.plan.specs import ExistingSpec, FileSystemSpec, NewEfsSpec, SharedDataSpec

NFS: Final = 2049
DRIVER: Final = "efs.csi.aws.com"


class SharedStorage(FileSystem):
    """Creates:
    - an encrypted EFS file system with elastic throughput that rejects unencrypted transport, unless an existing file
      system is given
    - a mount target in each zone, reachable only by nodes; for an existing file system, on request, only the rules that
      make it reachable
    - for job namespaces, an access point each, with a directory and a user of its own, and up to two access points for data
      that all namespaces share; for EC2 clusters, one access point with the user ID of login users
    """

    def __init__(
        self,
        name: str,
        spec: NewEfsSpec | ExistingSpec,
        args: FileSystemArgs,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("SharedStorage", name, spec, args, opts)
        if isinstance(spec, ExistingSpec):
            file_system_id = pulumi.Output.from_input(spec.id)
            for group in spec.admitting_groups:
                self._allow_node_ingress(f"{name}-{group}-nodes-ingress", group)
        else:
            file_system_id = self._create_file_system(spec)
        self._file_system_id = file_system_id
        self.exports = {"fileSystemId": file_system_id}
        if spec.namespaces:
            self._prepare_volumes(spec)
        else:
            self._prepare_mount(spec)
        self.register_outputs(dict(self.exports))

    def _prepare_mount(self, spec: FileSystemSpec) -> None:
        """Let the nodes of an EC2 cluster mount one directory, which all login users share."""
        point_id = self._create_access_point("access-point", SHARED_DIRECTORY, USER_ID, USER_ID, "0775")
        options = f"{spec.mount_path} efs _netdev,tls,iam,accesspoint="
        self.mount = Mount(spec.mount_path, pulumi.Output.concat(self._file_system_id, ":/ ", options, point_id, " 0 0"))
        self.mount_policies = {
            "storage": pulumi.Output.all(self._file_system_id, point_id).apply(
                lambda ids: iam.to_json(iam.allow_mount_by_access_point(self._args.account, *ids))
            )
        }
        self.exports = {**self.exports, "accessPointId": point_id}

    def _prepare_volumes(self, spec: FileSystemSpec) -> None:
        """Let the pods of each namespace mount a directory that no other namespace can reach, and the shared data."""
        points = {}
        for namespace in spec.namespaces:
            directory = build_namespace_directory(namespace)
            owner = derive_owner_id(directory)
            points[namespace] = self._create_access_point(f"jobs-{namespace}-access-point", directory, owner, owner, "0770")
        self.volumes = {namespace: self._build_volume(point_id) for namespace, point_id in points.items()}
        self.storage_classes = {namespace: self._build_storage_class(namespace) for namespace in spec.namespaces}
        if spec.shared_data is not None:
            self.data_volumes = self._share_data(spec.shared_data, spec.namespaces)
        self.exports = {**self.exports, "accessPointIds": points}

    def _share_data(self, data: SharedDataSpec, namespaces: Sequence[str]) -> dict[str, VolumeSource]:
        """Create one access point for namespaces that may write and one for the others, whose user does not own the
        directory. EFS therefore refuses their writes, even if a client ignores the mount option `ro`."""
        owner, reader = derive_owner_id(data.path), derive_owner_id(f"{data.path} readers")
        users = {True: owner, False: reader}
        ids = {
            writes: self._create_access_point(f"data-{name}-access-point", data.path, users[writes], owner, "0755")
            for writes, name in ((True, "writers"), (False, "readers"))
            if any((namespace in data.writers) is writes for namespace in namespaces)
        }
        return {
            namespace: self._build_volume(ids[namespace in data.writers], read_only=namespace not in data.writers)
            for namespace in namespaces
        }

    def _create_access_point(self, name: str, path: str, user: int, owner: int, mode: str) -> pulumi.Output[str]:
        """Create an access point whose clients all act as `user` in the directory `path`. EFS creates the directory at the
        first mount and gives it to `owner`."""
        return aws.efs.AccessPoint(
            f"{self._name}-{name}",
            file_system_id=self._file_system_id,
            posix_user={"uid": user, "gid": user},
            root_directory={
                "path": path,
                "creation_info": {"owner_uid": owner, "owner_gid": owner, "permissions": mode},
            },
            tags=self._args.naming.tags(Name=f"{self._name}-{name}"),
            opts=self._child,
        ).id

    def _build_volume(self, point_id: pulumi.Input[str], *, read_only: bool = False) -> VolumeSource:
        source = {"driver": DRIVER, "volume_handle": pulumi.Output.concat(self._file_system_id, "::", point_id)}
        return {"csi": source, **({"mount_options": ["ro"]} if read_only else {})}

    def _build_storage_class(self, namespace: str) -> Mapping[str, Any]:
        """Return a class whose volumes belong to the namespace. Their users and directories are not those of classes of other
        namespaces."""
        base = build_claims_directory(namespace)
        owner = str(derive_owner_id(base))
        return {
            "metadata": {"name": build_claim_class(namespace)},
            "provisioner": DRIVER,
            "parameters": {
                "provisioningMode": "efs-ap",
                "fileSystemId": self._file_system_id,
                "directoryPerms": "770",
                "uid": owner,
                "gid": owner,
                "basePath": base,
            },
            "reclaim_policy": "Delete",
            "volume_binding_mode": "Immediate",
        }

    def _create_file_system(self, new: NewEfsSpec) -> pulumi.Output[str]:
        naming, name = self._args.naming, self._name
        file_system = aws.efs.FileSystem(
            f"{name}-file-system",
            encrypted=True,
            kms_key_id=self._create_key("shared file system", "elasticfilesystem").arn,
            performance_mode="generalPurpose",
            throughput_mode="elastic",
            lifecycle_policies=_build_lifecycle_rules(new.infrequent_access_after_days),
            tags=naming.tags(Name=f"{name}-file-system"),
            opts=pulumi.ResourceOptions(parent=self, protect=new.protect),
        )
        aws.efs.FileSystemPolicy(
            f"{name}-policy",
            file_system_id=file_system.id,
            policy=file_system.arn.apply(lambda arn: iam.to_json(iam.build_file_system_policy(arn))),
            opts=self._child,
        )
        if new.backup:
            aws.efs.BackupPolicy(
                f"{name}-backup", file_system_id=file_system.id, backup_policy={"status": "ENABLED"}, opts=self._child
            )
        group = self._create_security_group(f"Shared file system of {naming.cluster}")
        self._allow_node_ingress(f"{name}-nodes-ingress", group.id)
        for zone, subnets in self._args.subnets.items():
            target = aws.efs.MountTarget(
                f"{name}-{zone}-mount-target",
                file_system_id=file_system.id,
                subnet_id=subnets[0],
                security_groups=[group.id],
                opts=self._child,
            )
            self.mounting.append(target)
        return file_system.id

    def _allow_node_ingress(self, name: str, group: pulumi.Input[str]) -> None:
        """Let nodes reach mount targets in an existing security group."""
        self.mounting.append(
            self._create_security_group_rule(name, group, self._args.nodes, (NFS, NFS), "Nodes mount the file system")
        )


def _build_lifecycle_rules(days: int | None) -> list[aws.efs.FileSystemLifecyclePolicyArgsDict]:
    """Return rules that move files to cheaper storage after `days` days without access, and back on the next access."""
    if days is None:
        return []
    unit = "DAY" if days == 1 else "DAYS"
    return [{"transition_to_ia": f"AFTER_{days}_{unit}"}, {"transition_to_primary_storage_class": "AFTER_1_ACCESS"}]
