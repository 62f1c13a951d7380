"""EFS file systems with mount targets and access points, created with boto3."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testkit.eks_clusters import Account
from testkit.node_groups import Object
from testkit.waiting import wait_while


@dataclass
class Storage:
    """Creates EFS file systems in the account with boto3."""

    account: Account

    @property
    def efs(self) -> Any:
        return self.account.client("efs")

    @property
    def root(self) -> Path:
        return self.account.cloud.folder / "file-systems"

    def create(self, token: str, zone: int | None = 0) -> str:
        """Create a file system, by default with a mount target in the first zone. The mount target accepts connections
        from the whole VPC.
        """
        name = str(self.efs.create_file_system(CreationToken=token)["FileSystemId"])
        self._wait_while_creating(self.efs.describe_file_systems, "FileSystems", FileSystemId=name)
        if zone is not None:
            world, ec2 = self.account.world, self.account.client("ec2")
            group = ec2.create_security_group(GroupName=token, Description="NFS", VpcId=world.vpc)["GroupId"]
            everybody = {"IpProtocol": "tcp", "FromPort": 2049, "ToPort": 2049, "IpRanges": [{"CidrIp": "10.0.0.0/16"}]}
            ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[everybody])
            self.efs.create_mount_target(FileSystemId=name, SubnetId=world.subnets[zone], SecurityGroups=[group])
            self._wait_while_creating(self.efs.describe_mount_targets, "MountTargets", FileSystemId=name)
        return name

    def create_access_point(self, file_system: str, path: str = "/shared") -> str:
        creation = {"OwnerUid": 1000, "OwnerGid": 1000, "Permissions": "0775"}
        response = self.efs.create_access_point(
            ClientToken=f"{file_system}{path}",
            FileSystemId=file_system,
            PosixUser={"Uid": 1000, "Gid": 1000},
            RootDirectory={"Path": path, "CreationInfo": creation},
        )
        self._wait_while_creating(self.efs.describe_access_points, "AccessPoints", FileSystemId=file_system)
        return str(response["AccessPointId"])

    def list_access_points(self, file_system: str) -> list[Object]:
        points: list[Object] = self.efs.describe_access_points(FileSystemId=file_system)["AccessPoints"]
        return points

    def delete_file_system(self, name: str) -> None:
        for target in self.efs.describe_mount_targets(FileSystemId=name)["MountTargets"]:
            self.efs.delete_mount_target(MountTargetId=target["MountTargetId"])
        wait_while(lambda: self.efs.describe_mount_targets(FileSystemId=name)["MountTargets"], bool)
        self.efs.delete_file_system(FileSystemId=name)

    def _wait_while_creating(self, describe: Any, member: str, **which: Any) -> None:
        wait_while(lambda: describe(**which)[member], lambda resources: resources[-1]["LifeCycleState"] == "creating")
