"""Find the AWS resource that an interrupted create left behind, by the name or tags in its inputs."""

import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

Inputs = Mapping[str, Any]
Client = Callable[[str], Any]
"""Function that returns the boto3 client for a service name."""


@dataclass(frozen=True)
class Found:
    """A resource that exists in AWS."""

    id: str
    """The resource's ID in Pulumi."""
    status: str = ""


Look = Callable[[Client, Inputs], Iterator[Found]]
"""Lookup that yields every resource that a create with these inputs may have left behind. If there is none, the lookup
yields nothing or raises an AWS error with a code in `MISSING`."""

MISSING: Final = (
    "404",
    "FileSystemNotFound",
    "NoSuchBucket",
    "NoSuchEntity",
    "RepositoryNotFoundException",
    "ResourceNotFoundException",
)


def _tagged(operation: str, key: str, id_key: str, filters: str = "Filters") -> Look:
    """Return a lookup that finds EC2 resources by their tags. EC2 sets tags at creation; the tags include the names of
    the stack and the resource."""

    def look(client: Client, inputs: Inputs) -> Iterator[Found]:
        tags = inputs["tags"]
        wanted = [{"Name": f"tag:{name}", "Values": [value]} for name, value in tags.items()]
        for one in getattr(client("ec2"), operation)(**{filters: wanted})[key]:
            if _own_tags(one["Tags"]) == tags:
                yield Found(one[id_key], str(one.get("State") or ""))

    return look


def _own_tags(pairs: list[Mapping[str, str]], key: str = "Key", value: str = "Value") -> dict[str, str]:
    """Return the tags that the program set, without the tags that AWS added."""
    return {one[key]: one[value] for one in pairs if not one[key].startswith("aws:")}


def _route(client: Client, inputs: Inputs) -> Iterator[Found]:
    table, destination = inputs["routeTableId"], inputs["destinationCidrBlock"]
    wanted = [{"Name": "route-table-id", "Values": [table]}]
    for one in client("ec2").describe_route_tables(Filters=wanted)["RouteTables"]:
        if any(route.get("DestinationCidrBlock") == destination for route in one["Routes"]):
            # https://github.com/hashicorp/terraform-provider-aws/blob/main/internal/service/ec2/vpc_route.go
            yield Found(f"r-{table}{zlib.crc32(destination.encode())}")


def _route_table_association(client: Client, inputs: Inputs) -> Iterator[Found]:
    wanted = [{"Name": "route-table-id", "Values": [inputs["routeTableId"]]}]
    for table in client("ec2").describe_route_tables(Filters=wanted)["RouteTables"]:
        for one in table["Associations"]:
            if one.get("SubnetId") == inputs["subnetId"]:
                yield Found(one["RouteTableAssociationId"])


def _role(client: Client, inputs: Inputs) -> Iterator[Found]:
    yield Found(client("iam").get_role(RoleName=inputs["name"])["Role"]["RoleName"])


def _role_policy(client: Client, inputs: Inputs) -> Iterator[Found]:
    found = client("iam").get_role_policy(RoleName=inputs["role"], PolicyName=inputs["name"])
    yield Found(f"{found['RoleName']}:{found['PolicyName']}")


def _role_policy_attachment(client: Client, inputs: Inputs) -> Iterator[Found]:
    role, policy = inputs["role"], inputs["policyArn"]
    for page in client("iam").get_paginator("list_attached_role_policies").paginate(RoleName=role):
        if any(one["PolicyArn"] == policy for one in page["AttachedPolicies"]):
            yield Found(f"{role}/{policy}")


def _instance_profile(client: Client, inputs: Inputs) -> Iterator[Found]:
    yield Found(client("iam").get_instance_profile(InstanceProfileName=inputs["name"])["InstanceProfile"]["InstanceProfileName"])


def _instance(client: Client, inputs: Inputs) -> Iterator[Found]:
    """Find instances that are not terminated. EC2 still lists terminated instances, with their tags, for an hour."""
    wanted = [{"Name": f"tag:{name}", "Values": [value]} for name, value in inputs["tags"].items()]
    wanted.append({"Name": "instance-state-name", "Values": ["pending", "running", "stopping", "stopped"]})
    for page in client("ec2").get_paginator("describe_instances").paginate(Filters=wanted):
        for reservation in page["Reservations"]:
            for one in reservation["Instances"]:
                if _own_tags(one["Tags"]) == inputs["tags"]:
                    yield Found(one["InstanceId"], one["State"]["Name"])


def _auto_scaling_group(client: Client, inputs: Inputs) -> Iterator[Found]:
    for one in client("autoscaling").describe_auto_scaling_groups(AutoScalingGroupNames=[inputs["name"]])["AutoScalingGroups"]:
        yield Found(one["AutoScalingGroupName"], one.get("Status", ""))


def _key(client: Client, inputs: Inputs) -> Iterator[Found]:
    kms = client("kms")
    for page in kms.get_paginator("list_keys").paginate():
        for key in page["Keys"]:
            metadata = kms.describe_key(KeyId=key["KeyId"])["KeyMetadata"]
            if metadata["KeyManager"] == "CUSTOMER" and metadata["KeyState"] != "PendingDeletion":
                tags = kms.list_resource_tags(KeyId=key["KeyId"])["Tags"]
                if _own_tags(tags, "TagKey", "TagValue") == inputs["tags"]:
                    yield Found(key["KeyId"])


def _key_alias(client: Client, inputs: Inputs) -> Iterator[Found]:
    for page in client("kms").get_paginator("list_aliases").paginate():
        yield from (Found(one["AliasName"]) for one in page["Aliases"] if one["AliasName"] == inputs["name"])


def _log_group(client: Client, inputs: Inputs) -> Iterator[Found]:
    for page in client("logs").get_paginator("describe_log_groups").paginate(logGroupNamePrefix=inputs["name"]):
        yield from (Found(one["logGroupName"]) for one in page["logGroups"] if one["logGroupName"] == inputs["name"])


def _image_repository(client: Client, inputs: Inputs) -> Iterator[Found]:
    for one in client("ecr").describe_repositories(repositoryNames=[inputs["name"]])["repositories"]:
        yield Found(one["repositoryName"])


def _bucket(client: Client, inputs: Inputs) -> Iterator[Found]:
    client("s3").head_bucket(Bucket=inputs["bucket"])
    yield Found(inputs["bucket"])


def _file_system(client: Client, inputs: Inputs) -> Iterator[Found]:
    for page in client("efs").get_paginator("describe_file_systems").paginate():
        for one in page["FileSystems"]:
            if _own_tags(one["Tags"]) == inputs["tags"]:
                yield Found(one["FileSystemId"], one["LifeCycleState"])


def _mount_target(client: Client, inputs: Inputs) -> Iterator[Found]:
    for page in client("efs").get_paginator("describe_mount_targets").paginate(FileSystemId=inputs["fileSystemId"]):
        for one in page["MountTargets"]:
            if one["SubnetId"] == inputs["subnetId"]:
                yield Found(one["MountTargetId"], one["LifeCycleState"])


def _access_point(client: Client, inputs: Inputs) -> Iterator[Found]:
    for page in client("efs").get_paginator("describe_access_points").paginate(FileSystemId=inputs["fileSystemId"]):
        for one in page["AccessPoints"]:
            if _own_tags(one["Tags"]) == inputs["tags"]:
                yield Found(one["AccessPointId"], one["LifeCycleState"])


def _lustre_file_system(client: Client, inputs: Inputs) -> Iterator[Found]:
    for page in client("fsx").get_paginator("describe_file_systems").paginate():
        for one in page["FileSystems"]:
            if one["Lifecycle"] != "DELETING" and _own_tags(one.get("Tags", [])) == inputs["tags"]:
                yield Found(one["FileSystemId"], one["Lifecycle"])


def _data_repository_association(client: Client, inputs: Inputs) -> Iterator[Found]:
    wanted = [{"Name": "file-system-id", "Values": [inputs["fileSystemId"]]}]
    for page in client("fsx").get_paginator("describe_data_repository_associations").paginate(Filters=wanted):
        for one in page["Associations"]:
            if one["FileSystemPath"] == inputs["fileSystemPath"] and one["Lifecycle"] != "DELETING":
                yield Found(one["AssociationId"], one["Lifecycle"])


def _cluster(client: Client, inputs: Inputs) -> Iterator[Found]:
    found = client("eks").describe_cluster(name=inputs["name"])["cluster"]
    yield Found(found["name"], found["status"])


def _addon(client: Client, inputs: Inputs) -> Iterator[Found]:
    cluster, addon = inputs["clusterName"], inputs["addonName"]
    found = client("eks").describe_addon(clusterName=cluster, addonName=addon)["addon"]
    yield Found(f"{cluster}:{addon}", found["status"])


def _node_group(client: Client, inputs: Inputs) -> Iterator[Found]:
    cluster, group = inputs["clusterName"], inputs["nodeGroupName"]
    found = client("eks").describe_nodegroup(clusterName=cluster, nodegroupName=group)["nodegroup"]
    yield Found(f"{cluster}:{group}", found["status"])


def _access_entry(client: Client, inputs: Inputs) -> Iterator[Found]:
    cluster, principal = inputs["clusterName"], inputs["principalArn"]
    client("eks").describe_access_entry(clusterName=cluster, principalArn=principal)
    yield Found(f"{cluster}:{principal}")


def _pod_identity(client: Client, inputs: Inputs) -> Iterator[Found]:
    wanted = {name: inputs[name] for name in ("clusterName", "namespace", "serviceAccount")}
    for one in client("eks").list_pod_identity_associations(**wanted)["associations"]:
        yield Found(one["associationId"])


LOOKS: Final[Mapping[str, Look]] = {
    "aws:ec2/vpc:Vpc": _tagged("describe_vpcs", "Vpcs", "VpcId"),
    "aws:ec2/subnet:Subnet": _tagged("describe_subnets", "Subnets", "SubnetId"),
    "aws:ec2/internetGateway:InternetGateway": _tagged("describe_internet_gateways", "InternetGateways", "InternetGatewayId"),
    "aws:ec2/eip:Eip": _tagged("describe_addresses", "Addresses", "AllocationId"),
    "aws:ec2/natGateway:NatGateway": _tagged("describe_nat_gateways", "NatGateways", "NatGatewayId"),
    "aws:ec2/routeTable:RouteTable": _tagged("describe_route_tables", "RouteTables", "RouteTableId"),
    "aws:ec2/route:Route": _route,
    "aws:ec2/routeTableAssociation:RouteTableAssociation": _route_table_association,
    "aws:ec2/vpcEndpoint:VpcEndpoint": _tagged("describe_vpc_endpoints", "VpcEndpoints", "VpcEndpointId"),
    "aws:ec2/flowLog:FlowLog": _tagged("describe_flow_logs", "FlowLogs", "FlowLogId", filters="Filter"),
    "aws:ec2/securityGroup:SecurityGroup": _tagged("describe_security_groups", "SecurityGroups", "GroupId"),
    "aws:ec2/placementGroup:PlacementGroup": _tagged("describe_placement_groups", "PlacementGroups", "GroupName"),
    "aws:ec2/launchTemplate:LaunchTemplate": _tagged("describe_launch_templates", "LaunchTemplates", "LaunchTemplateId"),
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": _tagged(
        "describe_security_group_rules", "SecurityGroupRules", "SecurityGroupRuleId"
    ),
    "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule": _tagged(
        "describe_security_group_rules", "SecurityGroupRules", "SecurityGroupRuleId"
    ),
    "aws:autoscaling/group:Group": _auto_scaling_group,
    "aws:ec2/instance:Instance": _instance,
    "aws:iam/instanceProfile:InstanceProfile": _instance_profile,
    "aws:iam/role:Role": _role,
    "aws:iam/rolePolicy:RolePolicy": _role_policy,
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment": _role_policy_attachment,
    "aws:kms/key:Key": _key,
    "aws:kms/alias:Alias": _key_alias,
    "aws:cloudwatch/logGroup:LogGroup": _log_group,
    "aws:ecr/repository:Repository": _image_repository,
    "aws:s3/bucket:Bucket": _bucket,
    "aws:efs/fileSystem:FileSystem": _file_system,
    "aws:efs/mountTarget:MountTarget": _mount_target,
    "aws:efs/accessPoint:AccessPoint": _access_point,
    "aws:fsx/lustreFileSystem:LustreFileSystem": _lustre_file_system,
    "aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation": _data_repository_association,
    "aws:eks/cluster:Cluster": _cluster,
    "aws:eks/addon:Addon": _addon,
    "aws:eks/nodeGroup:NodeGroup": _node_group,
    "aws:eks/accessEntry:AccessEntry": _access_entry,
    "aws:eks/podIdentityAssociation:PodIdentityAssociation": _pod_identity,
}

REPEATED: Final = frozenset(
    {
        "aws:autoscaling/schedule:Schedule",
        "aws:autoscaling/tag:Tag",
        "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup",
        "aws:ecr/lifecyclePolicy:LifecyclePolicy",
        "aws:efs/backupPolicy:BackupPolicy",
        "aws:efs/fileSystemPolicy:FileSystemPolicy",
        "aws:eks/accessPolicyAssociation:AccessPolicyAssociation",
        "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration",
        "aws:s3/bucketOwnershipControls:BucketOwnershipControls",
        "aws:s3/bucketPolicy:BucketPolicy",
        "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock",
        "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration",
    }
)
"""Types of resources that only configure another resource and are deleted with that resource. A second create has no
further effect."""
