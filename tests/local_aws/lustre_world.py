"""A subnet, a bucket, and a security group whose members can reach each other on Lustre ports."""

from typing import Any

from testkit.aws_clients import REGION, Client

BUCKET = "data-sets"


class LustreWorld:
    def __init__(self, client: Client) -> None:
        self.ec2, self.fsx, self.s3 = client("ec2"), client("fsx"), client("s3")
        self.vpc = self.ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        self.subnets = [
            self.ec2.create_subnet(VpcId=self.vpc, CidrBlock=f"10.0.{number}.0/24")["Subnet"]["SubnetId"] for number in range(2)
        ]
        self.servers, self.nodes = (self.group(name) for name in ("servers", "nodes"))
        self.allow_ingress(self.servers)
        self.s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})

    def group(self, name: str) -> str:
        return str(self.ec2.create_security_group(GroupName=name, Description=name, VpcId=self.vpc)["GroupId"])

    def allow_ingress(self, source: str) -> None:
        """Allow members of a security group to reach the file servers."""
        rule = {"IpProtocol": "tcp", "FromPort": 988, "ToPort": 988, "UserIdGroupPairs": [{"GroupId": source}]}
        self.ec2.authorize_security_group_ingress(GroupId=self.servers, IpPermissions=[rule])

    def build_request(self, **changes: Any) -> dict[str, Any]:
        """Return CreateFileSystem parameters. `changes` replace parameters; `lustre` replaces fields of
        LustreConfiguration.
        """
        lustre = {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 125} | changes.pop("lustre", {})
        return {
            "FileSystemType": "LUSTRE",
            "StorageCapacity": 1200,
            "SubnetIds": self.subnets[:1],
            "SecurityGroupIds": [self.servers],
            "FileSystemTypeVersion": "2.15",
            "LustreConfiguration": {name: value for name, value in lustre.items() if value is not None},
        } | changes

    def create(self, **changes: Any) -> str:
        return str(self.fsx.create_file_system(**self.build_request(**changes))["FileSystem"]["FileSystemId"])

    def describe_file_system(self, name: str) -> dict[str, Any]:
        file_system: dict[str, Any] = self.fsx.describe_file_systems(FileSystemIds=[name])["FileSystems"][0]
        return file_system

    def link(self, name: str, **changes: Any) -> str:
        request = {
            "FileSystemId": name,
            "FileSystemPath": "/data",
            "DataRepositoryPath": f"s3://{BUCKET}/sets",
            "BatchImportMetaDataOnCreate": True,
            "S3": {
                "AutoImportPolicy": {"Events": ["NEW", "CHANGED", "DELETED"]},
                "AutoExportPolicy": {"Events": ["NEW", "CHANGED"]},
            },
        } | changes
        return str(self.fsx.create_data_repository_association(**request)["Association"]["AssociationId"])

    def describe_association(self, name: str) -> dict[str, Any]:
        association: dict[str, Any] = self.fsx.describe_data_repository_associations(AssociationIds=[name])["Associations"][0]
        return association
