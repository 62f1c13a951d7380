"""EFS file system for the code, data and checkpoints of all jobs."""

from typing import Final

import pulumi
import pulumi_aws as aws

from infra.boot.ec2_node import Mount
from infra.components import iam
from infra.components.file_system import FileSystem, FileSystemArgs
from infra.naming import GROUP_ID, SHARED_DIRECTORY, USER_ID
from infra.plan.specs import ExistingSpec, NewEfsSpec

NFS: Final = 2049
DIRECTORY_MODE: Final = "0775"
DRIVER: Final = "efs.csi.aws.com"
STORAGE_CLASS: Final = "efs"


class SharedStorage(FileSystem):
    """Creates:
    - an encrypted EFS file system with elastic throughput that rejects unencrypted transport, unless an existing file
      system is given
    - a mount target in each zone, reachable only by nodes; for an existing file system, on request, only the rules that
      make it reachable
    - an access point for jobs, with one directory and the user ID of job images and login users
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
        access_point_id = aws.efs.AccessPoint(
            f"{name}-access-point",
            file_system_id=file_system_id,
            posix_user={"uid": USER_ID, "gid": GROUP_ID},
            root_directory={
                "path": SHARED_DIRECTORY,
                "creation_info": {"owner_uid": USER_ID, "owner_gid": GROUP_ID, "permissions": DIRECTORY_MODE},
            },
            tags=args.naming.tags(Name=f"{name}-access-point"),
            opts=self._child,
        ).id
        options = f"{spec.mount_path} efs _netdev,tls,iam,accesspoint="
        self.mount = Mount(spec.mount_path, pulumi.Output.concat(file_system_id, ":/ ", options, access_point_id, " 0 0"))
        self.volume = {"csi": {"driver": DRIVER, "volume_handle": pulumi.Output.concat(file_system_id, "::", access_point_id)}}
        self.storage_class = {
            "metadata": {"name": STORAGE_CLASS},
            "provisioner": DRIVER,
            "parameters": {
                "provisioningMode": "efs-ap",
                "fileSystemId": file_system_id,
                "directoryPerms": "770",
                "uid": str(USER_ID),
                "gid": str(GROUP_ID),
                "basePath": f"{SHARED_DIRECTORY}-claims",
            },
            "reclaim_policy": "Delete",
            "volume_binding_mode": "Immediate",
        }
        ids = pulumi.Output.all(file_system_id, access_point_id)
        self.mount_policies = {
            "storage": ids.apply(lambda values: iam.to_json(iam.allow_mount_by_access_point(args.account, *values)))
        }
        self.exports = {"fileSystemId": file_system_id, "accessPointId": access_point_id}
        self.register_outputs(dict(self.exports))

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
