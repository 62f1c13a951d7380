"""Limits of each action in the policies of docs/iam: resources, tags, and the service that uses a key.

A request needs a grant for each of its resources. A creation therefore has two: one for the new resource, whose tags the
request contains, and one for the existing resources that it uses or changes. The Service Authorization Reference
(https://docs.aws.amazon.com/service-authorization/latest/reference/) says which keys an action supports.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from infra.naming import PROJECT, SHARED_TAG, STACK_TAG

Condition = Mapping[str, Mapping[str, str | list[str]]]


@dataclass(frozen=True, eq=False)
class Grant:
    """Actions that share a statement, and the limits of the statement."""

    sid: str
    actions: str
    """Pattern of the actions."""
    resources: str | list[str] = "*"
    condition: Condition | None = None
    files: tuple[str, ...] = ("up",)
    """Policies for changes that contain the statement. `destroy` contains each statement with the actions of a deletion."""


TAGGED: Final[Condition] = {"Null": {f"aws:ResourceTag/{STACK_TAG}": "false"}}
"""The resource belongs to a stack."""
NEW: Final[Condition] = {"Null": {f"aws:RequestTag/{STACK_TAG}": "false"}}
"""The request creates the resource with the tag of a stack."""
SHARED: Final[Condition] = {"Null": {f"aws:ResourceTag/{SHARED_TAG}": "false"}}
"""The owner of the resource shares it with stacks."""
RETAGGED: Final[Condition] = {**TAGGED, "ForAllValues:StringNotEquals": {"aws:TagKeys": [STACK_TAG]}}
"""The resource belongs to a stack, and the request does not change the stack's tag."""
OWN_ACCOUNT: Final[Condition] = {"StringEquals": {"aws:ResourceAccount": "${aws:PrincipalAccount}"}}
"""The bucket belongs to the account of the caller: names of buckets are global."""
EKS_GROUP: Final[Condition] = {"StringLike": {"aws:ResourceTag/eks:cluster-name": f"{PROJECT}-*"}}
"""EKS created the Auto Scaling group for a node group of a stack."""
EKS_SECURITY_GROUP: Final[Condition] = {"StringLike": {"aws:ResourceTag/aws:eks:cluster-name": f"{PROJECT}-*"}}
"""EKS created the security group for the cluster of a stack. Only AWS sets tags that start with `aws:`."""
UNNAMED: Final[Condition] = {"Null": {"aws:ResourceTag/Name": "true"}}
THROUGH_STORAGE: Final[Condition] = {
    "StringLike": {"kms:ViaService": ["elasticfilesystem.*.amazonaws.com", "fsx.*.amazonaws.com"]}
}
BOUNDARY_POLICY: Final = f"{PROJECT}-boundary"
BOUNDED: Final[Condition] = {
    "StringEquals": {"iam:PermissionsBoundary": f"arn:aws:iam::${{aws:PrincipalAccount}}:policy/{BOUNDARY_POLICY}"}
}
"""The role has the permissions boundary of docs/iam/boundary.json, or the request sets it."""

ROLES: Final = [f"arn:aws:iam::*:role/{PROJECT}-*", f"arn:aws:iam::*:instance-profile/{PROJECT}-*"]
LOG_GROUPS: Final = [f"arn:aws:logs:*:*:log-group:/{PROJECT}/*", f"arn:aws:logs:*:*:log-group:/aws/eks/{PROJECT}-*"]
CLUSTERS: Final = [
    f"arn:aws:eks:*:*:{kind}/{PROJECT}-*" for kind in ("cluster", "nodegroup", "addon", "access-entry", "podidentityassociation")
]
REPOSITORIES: Final = f"arn:aws:ecr:*:*:repository/{PROJECT}-*"
SCALING_GROUPS: Final = f"arn:aws:autoscaling:*:*:autoScalingGroup:*:autoScalingGroupName/{PROJECT}-*"


def _list_ec2_arns(*kinds: str) -> list[str]:
    return [f"arn:aws:ec2:*:*:{kind}/*" for kind in kinds]


READS: Final = (
    Grant("Ec2", r"ec2:\w+"),
    Grant("Groups", r"autoscaling:\w+"),
    Grant("FileSystems", r"(elasticfilesystem|fsx):\w+"),
    Grant("Account", r"eks:(ListClusters|Describe\w+Versions)|iam:(GetAccountSummary|ListRoles|SimulatePrincipalPolicy)"),
    Grant("Clusters", r"eks:\w+", CLUSTERS),
    Grant("Roles", r"iam:\w+", ROLES),
    Grant("Keys", r"kms:\w+"),
    Grant("LogGroups", r"logs:\w+"),
    Grant("Buckets", r"s3:\w+", f"arn:aws:s3:::{PROJECT}-*"),
    Grant("Repositories", r"ecr:\w+", REPOSITORIES),
    Grant("Other", r".*"),
)
"""Reads. The first grant whose pattern matches an action counts."""

_NETWORK: Final = (
    r"ec2:(Create(FlowLogs|InternetGateway|NatGateway|Route|RouteTable|Subnet|Vpc)|(Associate|Disassociate)RouteTable|"
    r"(Attach|Detach)InternetGateway|Modify(Subnet|Vpc)Attribute|Replace\w+|"
    r"Delete(FlowLogs|InternetGateway|NatGateway|Route|RouteTable|Subnet|Vpc))"
)
_INSTANCES: Final = (
    r"ec2:((Associate|Disassociate|Release)Address|(Authorize|Revoke)\w+|(Monitor|Run|Start|Stop|Terminate)Instances|"
    r"Create(LaunchTemplateVersion|NetworkInterface|VpcEndpoint)|Modify(Instance\w+|LaunchTemplate|SecurityGroupRules|"
    r"VpcEndpoint)|Delete(LaunchTemplate|PlacementGroup|SecurityGroup|VpcEndpoints))"
)
_NEW_NETWORK: Final = r"ec2:Create(FlowLogs|InternetGateway|NatGateway|RouteTable|Subnet|Vpc)"
_RULES: Final = r"ec2:((Authorize|Revoke)\w+|ModifySecurityGroupRules)"
_ACCESS_POINTS: Final = r"elasticfilesystem:CreateAccessPoint"
_BOUNDABLE: Final = r"iam:(CreateRole|PutRolePermissionsBoundary|(Attach|Detach|Put|Delete)RolePolicy)"

GRANTS: Final = (
    # EC2: the network of a stack
    Grant("NewNetwork", _NEW_NETWORK, condition=NEW, files=("up-network",)),
    Grant("Network", _NETWORK, condition=TAGGED, files=("up-network",)),
    Grant(
        "DefaultSecurityGroup",
        r"ec2:RevokeSecurityGroup\w+",
        _list_ec2_arns("security-group"),
        UNNAMED,
        ("up-network",),
    ),
    # EC2: nodes
    Grant("NewInstances", r"ec2:RunInstances", _list_ec2_arns("instance", "network-interface", "volume"), NEW),
    Grant(
        "New",
        r"ec2:(AllocateAddress|Authorize\w+|Create(LaunchTemplate|PlacementGroup|SecurityGroup|VpcEndpoint))",
        condition=NEW,
    ),
    Grant("Own", _INSTANCES, condition=TAGGED),
    Grant("EndedAssociations", r"ec2:DisassociateAddress", condition=UNNAMED),
    Grant(
        "Use",
        r"ec2:(RunInstances|Create(NetworkInterface|SecurityGroup|VpcEndpoint)|ModifyVpcEndpoint)",
        _list_ec2_arns("capacity-reservation", "image", "placement-group", "snapshot", "subnet", "vpc"),
    ),
    Grant("MountTargets", r"ec2:(Create|Delete)NetworkInterface", _list_ec2_arns("network-interface")),
    Grant("EksSecurityGroups", rf"{_RULES}|ec2:RunInstances", _list_ec2_arns("security-group"), EKS_SECURITY_GROUP),
    Grant("SharedSecurityGroups", _RULES, _list_ec2_arns("security-group"), SHARED),
    Grant(
        "NewTags",
        r"ec2:CreateTags",
        condition={
            "StringEquals": {
                "ec2:CreateAction": [
                    *("AllocateAddress", "AuthorizeSecurityGroupEgress", "AuthorizeSecurityGroupIngress", "CreateFlowLogs"),
                    *("CreateInternetGateway", "CreateLaunchTemplate", "CreateNatGateway", "CreatePlacementGroup"),
                    *("CreateRouteTable", "CreateSecurityGroup", "CreateSubnet", "CreateVpc", "CreateVpcEndpoint"),
                    "RunInstances",
                ]
            }
        },
    ),
    Grant("Tags", r"ec2:(Create|Delete)Tags", condition=RETAGGED),
    Grant("Dns", r"route53:\w+"),
    # Auto Scaling
    Grant("NewGroups", r"autoscaling:CreateAutoScalingGroup", SCALING_GROUPS, NEW),
    Grant("Groups", r"autoscaling:(?!\w*Tags|CreateAutoScalingGroup)\w+", condition=TAGGED),
    Grant("GroupTags", r"autoscaling:\w*Tags", condition=RETAGGED),
    Grant("EksGroups", r"autoscaling:(\w*Tags|\w*Schedule\w+)", condition=EKS_GROUP),
    # EKS
    Grant("NewClusters", r"eks:CreateCluster", condition=NEW),
    Grant("NewClusterTags", r"eks:TagResource", CLUSTERS, NEW),
    Grant("Clusters", r"eks:(?!CreateCluster$)\w+", CLUSTERS, TAGGED),
    Grant("AddonRoles", r"eks:\w+Addon", CLUSTERS[-1]),
    # Storage
    Grant("NewStorage", r"(elasticfilesystem|fsx):CreateFileSystem|fsx:TagResource", condition=NEW, files=("up-storage",)),
    Grant("NewLinks", r"fsx:CreateDataRepositoryAssociation", "arn:aws:fsx:*:*:association/*", NEW, ("up-storage",)),
    Grant(
        "Storage",
        r"(elasticfilesystem|fsx):(?!TagResource|UntagResource|CreateFileSystem)\w+",
        condition=TAGGED,
        files=("up-storage",),
    ),
    Grant("SharedStorage", _ACCESS_POINTS, condition=SHARED, files=("up-storage",)),
    Grant(
        "NewStorageTags",
        r"elasticfilesystem:TagResource",
        condition={"StringEquals": {"elasticfilesystem:CreateAction": ["CreateAccessPoint", "CreateFileSystem"]}},
        files=("up-storage",),
    ),
    Grant("StorageTags", r"(elasticfilesystem|fsx):(Tag|Untag)Resource", condition=RETAGGED, files=("up-storage",)),
    # Keys
    Grant("NewKeys", r"kms:(CreateKey|TagResource)", condition=NEW, files=("up-storage",)),
    Grant("Aliases", r"kms:\w+Alias", f"arn:aws:kms:*:*:alias/{PROJECT}-*", files=("up-storage",)),
    Grant("Keys", r"kms:(?!CreateKey$|Decrypt|GenerateData)\w+", condition=TAGGED, files=("up-storage",)),
    Grant("StorageKeys", r"kms:(CreateGrant|Decrypt|GenerateData\w+)", condition=THROUGH_STORAGE, files=("up-storage",)),
    # Logs, buckets, images
    Grant("NewLogGroups", r"logs:(CreateLogGroup|TagResource)", LOG_GROUPS, NEW, ("up-storage",)),
    Grant("LogGroups", r"logs:(?!CreateLogGroup$)\w+", LOG_GROUPS, TAGGED, ("up-storage",)),
    Grant("EksLogGroups", r"logs:DeleteLogGroup", LOG_GROUPS[1], files=("up-storage",)),
    Grant("NewBuckets", r"s3:(CreateBucket|TagResource)", f"arn:aws:s3:::{PROJECT}-*", files=("up-storage",)),
    Grant("Objects", r"s3:DeleteObject\w*", f"arn:aws:s3:::{PROJECT}-*/*", OWN_ACCOUNT, ("up-storage",)),
    Grant(
        "Buckets", r"s3:(?!CreateBucket$|DeleteObject|TagResource$)\w+", f"arn:aws:s3:::{PROJECT}-*", OWN_ACCOUNT, ("up-storage",)
    ),
    Grant("NewRepositories", r"ecr:(CreateRepository|TagResource)", REPOSITORIES, NEW, ("up-storage",)),
    Grant("Repositories", r"ecr:(?!CreateRepository$)\w+", REPOSITORIES, TAGGED, ("up-storage",)),
    # Roles
    Grant("NewBoundedRoles", r"iam:CreateRole", ROLES[0], {**NEW, **BOUNDED}, ("up-roles-bounded",)),
    Grant("BoundedRoles", _BOUNDABLE.replace("CreateRole|", ""), ROLES[0], {**TAGGED, **BOUNDED}, ("up-roles-bounded",)),
    Grant("NewRoles", r"iam:CreateRole", ROLES[0], NEW, ("up-roles",)),
    Grant("Policies", _BOUNDABLE.replace("CreateRole|", ""), ROLES[0], TAGGED, ("up-roles",)),
    Grant("NewProfiles", r"iam:(CreateInstanceProfile|Tag\w+)", ROLES, NEW, ("up-roles", "up-roles-bounded")),
    Grant("Roles", rf"(?!{_BOUNDABLE}$|iam:CreateInstanceProfile)iam:\w+", ROLES, TAGGED, ("up-roles", "up-roles-bounded")),
)
"""Changes and deletions. An action is in the statement of every grant whose pattern matches it."""

WITHHELD: Final[Mapping[str, str]] = {
    "iam:DeleteRolePermissionsBoundary": "A boundary would not limit people who can remove it.",
    "ec2:ModifyNetworkInterfaceAttribute": "It has no tags to check on the interfaces of EFS, and no setting changes the "
    "security groups of a mount target.",
}
"""Actions of the official provider that no policy allows, with reasons."""
