"""The policies in docs/iam change only resources of stacks. docs/iam/exceptions.yaml lists what AWS cannot limit further.

The first tests evaluate the policies for every change that they allow, on every resource type of the action; the last one
sends requests to the local AWS.
"""

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from botocore.exceptions import ClientError

from infra.facts.account_limits import SERVICE_ROLES
from infra.inventory.permissions import read_actions
from infra.naming import POOL_TAG, STACK_TAG
from localcloud.aws.account import ACCOUNT
from localcloud.aws.permissions import actions
from localcloud.aws.policy_evaluation import Request, Values, allows, to_list
from testkit import iam_policies
from testkit.aws_clients import REGION, Client
from tests.local_aws.documents import make_trust_policy

READ = re.compile(r"[\w-]+:(BatchCheck|BatchGet|Describe|Get|List|Simulate)\w*")
POLICIES = {path.stem: iam_policies.read_policy(path.stem) for path in iam_policies.list_policy_files()}
CHANGES = sorted({action for path in iam_policies.list_policy_files() for action in iam_policies.list_allowed_actions(path)})
EXCEPTIONS = iam_policies.read_exceptions()

FOREIGN_TAGS: tuple[Mapping[str, str], ...] = (
    {},
    {"team": "physics"},
    {"Name": "gpumpi-local-nodes", POOL_TAG: "train", "gpumpi:stack-of": "local", "gpumpi": "local"},
    {"eks:cluster-name": "theirs", "aws:eks:cluster-name": "theirs"},
)
"""Tags of resources that belong to no stack. IAM ignores the case of tag keys in conditions."""
REQUESTED_TAGS: tuple[Mapping[str, str], ...] = ({}, {"owner": "ada"}, {STACK_TAG: "local"}, {STACK_TAG: "local", "Name": "x"})
ARNS: Mapping[str, tuple[str, ...]] = {
    "alias": ("alias/theirs",),
    "autoScalingGroup": ("autoScalingGroup:00000000-0000:autoScalingGroupName/theirs",),
    "bucket": ("theirs", "theirs-gpumpi-local"),
    "document": ("document/Delete-Everything",),
    "log-group": ("log-group:/theirs", "log-group:/aws/eks/theirs/cluster", "log-group:/aws/lambda/gpumpi-local"),
    "log-stream": ("log-group:/theirs:log-stream:x",),
    "object": ("theirs/key", "theirs-gpumpi-local/key"),
    "role": ("role/theirs", "role/team/gpumpi-local", "role/aws-service-role/eks.amazonaws.com/AWSServiceRoleForAmazonEKS"),
}
"""Maps a resource type to the ends of ARNs of resources that belong to no stack, for types whose names identify the owner."""


def find_kinds(action: str) -> list[str]:
    if action.startswith("s3:"):
        return ["object" if "Object" in action or "Multipart" in action else "bucket"]
    if action.startswith("route53:"):
        return ["hostedzone"]
    return [kind.rstrip("+") for kind in actions.load_resource_types()[action]]


ALLOWED_ANYWHERE = {
    (action, kind) for row in EXCEPTIONS for action in row["actions"] for kind in row["resources"] if kind in find_kinds(action)
}


def list_foreign_arns(action: str) -> Iterator[tuple[str, str]]:
    """Yield the types and the ARNs of foreign resources on which an action is tried."""
    service = action.partition(":")[0]
    where = "" if service in ("s3", "iam") else REGION
    for kind in find_kinds(action):
        for end in ARNS.get(kind, (f"{kind}/theirs-0123456789abcdef0",)):
            yield kind, f"arn:aws:{service}:{where}:{'' if service == 's3' else ACCOUNT}:{end}"


def make_contexts(action: str) -> Iterator[dict[str, Values]]:
    """Yield the condition keys of requests to change a foreign resource. EC2 compares the tags in a request with new resources
    only; other services compare them in every request."""
    service, name = action.split(":")
    can_tag = service != "ec2" or name == "CreateTags"
    services = [None, f"fsx.{REGION}.amazonaws.com"] if service == "kms" else [None]
    for tags, requested, via in itertools.product(FOREIGN_TAGS, REQUESTED_TAGS if can_tag else ({},), services):
        yield {
            "aws:PrincipalAccount": ACCOUNT,
            "aws:userid": "AROA:ada",
            "aws:ResourceAccount": ACCOUNT,
            **{f"aws:ResourceTag/{key}": value for key, value in tags.items()},
            **{f"aws:RequestTag/{key}": value for key, value in requested.items()},
            **({"aws:TagKeys": tuple(requested)} if requested else {}),
            **({"kms:ViaService": via} if via else {}),
        }


def list_writes() -> list[str]:
    return [action for action in CHANGES if not READ.fullmatch(action)]


def list_statements(action: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, policy in POLICIES.items():
        yield from ((name, statement) for statement in policy["Statement"] if action in to_list(statement["Action"]))


CREATED = {
    *(("fsx:CreateDataRepositoryAssociation", "association"), ("fsx:CreateFileSystem", "file-system")),
    *(("ec2:PurchaseCapacityBlock", "capacity-reservation"), ("iam:CreateServiceLinkedRole", "role")),
}
"""Actions, and the type of the resource that they create: no such resource exists yet."""


def test_foreign_resources_of_every_type_cannot_be_changed_deleted_or_tagged() -> None:
    """Test a user who has all policies of docs/iam. exceptions.yaml lists the actions and resource types that are not limited."""
    allowed, tried = set(), 0
    for action in list_writes():
        for kind, arn in list_foreign_arns(action):
            for context in make_contexts(action):
                tried += 1
                if allows(Request(action, arn, context), *POLICIES.values()):
                    allowed.add((action, kind))
    assert allowed - CREATED - ALLOWED_ANYWHERE == set()
    assert ALLOWED_ANYWHERE - allowed == set(), "remove these rows from exceptions.yaml: the policies do not allow them"
    assert tried > 1000


def test_every_change_of_the_inventory_is_tried() -> None:
    types = read_actions().values()
    changes = {action for entry in types for action in (*entry.create, *entry.update, *entry.delete)}
    withheld = {"ec2:ModifyNetworkInterfaceAttribute", "iam:DeleteRolePermissionsBoundary"}
    assert {action for action in changes if not READ.fullmatch(action)} - set(list_writes()) == withheld


UNLIMITED = re.compile(r"\*|arn:aws:[\w-]+:[^:]*:[^:]*:(?!/gpumpi/|autoScalingGroup)[\w-]+/\*")
"""Resources in a statement that include those of others."""


def test_each_statement_for_changes_has_a_condition_names_or_a_documented_reason() -> None:
    unlimited = {
        (name, action, kind)
        for action in list_writes()
        for name, statement in list_statements(action)
        for pattern in to_list(statement["Resource"])
        if "Condition" not in statement and UNLIMITED.fullmatch(pattern)
        for kind in (find_kinds(action) if pattern == "*" else [pattern.split(":")[5].partition("/")[0]])
    }
    assert {(action, kind) for _, action, kind in unlimited if kind in find_kinds(action)} - ALLOWED_ANYWHERE == set()


def test_each_exception_has_a_reason_and_a_source() -> None:
    assert all(len(row["reason"].split()) > 8 and row["source"].startswith("https://docs.aws.amazon.com/") for row in EXCEPTIONS)


def test_tags_of_a_stack_cannot_be_removed_or_moved_to_another_stack() -> None:
    instance = f"arn:aws:ec2:{REGION}:{ACCOUNT}:instance/i-0123456789abcdef0"
    for action in ("ec2:CreateTags", "ec2:DeleteTags"):
        own = {f"aws:ResourceTag/{STACK_TAG}": "local"}
        assert allows(Request(action, instance, {**own, "aws:TagKeys": ("team",)}), *POLICIES.values())
        assert not allows(Request(action, instance, {**own, "aws:TagKeys": ("team", STACK_TAG)}), *POLICIES.values())


def test_service_linked_roles_are_only_those_that_stacks_need() -> None:
    role = f"arn:aws:iam::{ACCOUNT}:role/aws-service-role/x.amazonaws.com/AWSServiceRoleForX"
    for service, expected in {"x.amazonaws.com": False, next(iter(SERVICE_ROLES)): True}.items():
        request = Request("iam:CreateServiceLinkedRole", role, {"iam:AWSServiceName": service})
        assert allows(request, *POLICIES.values()) is expected


# --- requests ----------------------------------------------------------------------------------------------------------

THEIRS = [{"Key": "team", "Value": "physics"}]
STOLEN = [{"Key": STACK_TAG, "Value": "local"}]


def create_foreign_resources(aws: Client) -> dict[str, str]:
    """Create resources of another team, as the administrator of the account. Return the ID of each kind of resource."""
    ec2 = aws("ec2")

    def specify_tags(kind: str) -> list[dict[str, Any]]:
        return [{"ResourceType": kind, "Tags": THEIRS}]

    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16", TagSpecifications=specify_tags("vpc"))["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/24")["Subnet"]["SubnetId"]
    group = ec2.create_security_group(
        GroupName="theirs", Description="theirs", VpcId=vpc, TagSpecifications=[*specify_tags("security-group")]
    )["GroupId"]
    ec2.create_tags(Resources=[group], Tags=[{"Key": "Name", "Value": "theirs"}])
    ec2.create_placement_group(GroupName="theirs", Strategy="cluster")
    image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    data = {"ImageId": image, "InstanceType": "c7i.large"}
    template = ec2.create_launch_template(LaunchTemplateName="theirs", LaunchTemplateData=data)["LaunchTemplate"]
    aws("autoscaling").create_auto_scaling_group(
        AutoScalingGroupName="gpumpi-theirs",
        MinSize=0,
        MaxSize=1,
        LaunchTemplate={"LaunchTemplateName": "theirs", "Version": "1"},
        VPCZoneIdentifier=subnet,
    )
    aws("iam").create_role(RoleName="gpumpi-theirs", AssumeRolePolicyDocument=make_trust_policy({"Service": "ec2.amazonaws.com"}))
    aws("ecr").create_repository(repositoryName="gpumpi-theirs")
    aws("logs").create_log_group(logGroupName="/gpumpi/theirs")
    return {
        "vpc": vpc,
        "subnet": subnet,
        "group": group,
        "template": template["LaunchTemplateId"],
        "address": ec2.allocate_address(Domain="vpc")["AllocationId"],
        "table": ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"],
        "gateway": ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"],
        "files": aws("efs").create_file_system(CreationToken="theirs", Tags=THEIRS)["FileSystemId"],
        "key": aws("kms").create_key()["KeyMetadata"]["KeyId"],
    }


ATTEMPTS: dict[str, Callable[[Client, Mapping[str, str]], Any]] = {
    "tag": lambda aws, ids: aws("ec2").create_tags(Resources=[ids["vpc"]], Tags=STOLEN),
    "untag": lambda aws, ids: aws("ec2").delete_tags(Resources=[ids["vpc"]], Tags=THEIRS),
    "VPC": lambda aws, ids: aws("ec2").delete_vpc(VpcId=ids["vpc"]),
    "VPC attribute": lambda aws, ids: aws("ec2").modify_vpc_attribute(VpcId=ids["vpc"], EnableDnsHostnames={"Value": True}),
    "subnet": lambda aws, ids: aws("ec2").delete_subnet(SubnetId=ids["subnet"]),
    "subnet in a foreign VPC": lambda aws, ids: aws("ec2").create_subnet(
        VpcId=ids["vpc"], CidrBlock="10.0.9.0/24", TagSpecifications=[{"ResourceType": "subnet", "Tags": STOLEN}]
    ),
    "rules": lambda aws, ids: aws("ec2").authorize_security_group_ingress(
        GroupId=ids["group"],
        IpPermissions=[{"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "IpRanges": [{"CidrIp": "10.0.0.0/8"}]}],
        TagSpecifications=[{"ResourceType": "security-group-rule", "Tags": STOLEN}],
    ),
    "removal of rules": lambda aws, ids: aws("ec2").revoke_security_group_egress(
        GroupId=ids["group"], IpPermissions=[{"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}]
    ),
    "security group": lambda aws, ids: aws("ec2").delete_security_group(GroupId=ids["group"]),
    "route": lambda aws, ids: aws("ec2").create_route(
        RouteTableId=ids["table"], DestinationCidrBlock="0.0.0.0/0", GatewayId=ids["gateway"]
    ),
    "route table": lambda aws, ids: aws("ec2").delete_route_table(RouteTableId=ids["table"]),
    "internet gateway": lambda aws, ids: aws("ec2").delete_internet_gateway(InternetGatewayId=ids["gateway"]),
    "address": lambda aws, ids: aws("ec2").release_address(AllocationId=ids["address"]),
    "placement group": lambda aws, ids: aws("ec2").delete_placement_group(GroupName="theirs"),
    "launch template": lambda aws, ids: aws("ec2").create_launch_template_version(
        LaunchTemplateId=ids["template"], LaunchTemplateData={"InstanceType": "c7i.large"}
    ),
    "scaling group": lambda aws, ids: aws("autoscaling").update_auto_scaling_group(
        AutoScalingGroupName="gpumpi-theirs", MinSize=0
    ),
    "size of a scaling group": lambda aws, ids: aws("autoscaling").set_desired_capacity(
        AutoScalingGroupName="gpumpi-theirs", DesiredCapacity=1
    ),
    "tags of a scaling group": lambda aws, ids: aws("autoscaling").create_or_update_tags(
        Tags=[{"ResourceId": "gpumpi-theirs", "ResourceType": "auto-scaling-group", "PropagateAtLaunch": False, **STOLEN[0]}]
    ),
    "file system": lambda aws, ids: aws("efs").delete_file_system(FileSystemId=ids["files"]),
    "tags of a file system": lambda aws, ids: aws("efs").tag_resource(ResourceId=ids["files"], Tags=STOLEN),
    "access point": lambda aws, ids: aws("efs").create_access_point(ClientToken="x", FileSystemId=ids["files"], Tags=STOLEN),
    "key": lambda aws, ids: aws("kms").schedule_key_deletion(KeyId=ids["key"]),
    "policy of a key": lambda aws, ids: aws("kms").put_key_policy(KeyId=ids["key"], Policy="{}"),
    "grant": lambda aws, ids: aws("kms").create_grant(
        KeyId=ids["key"], GranteePrincipal=f"arn:aws:iam::{ACCOUNT}:root", Operations=["Decrypt"]
    ),
    "decryption": lambda aws, ids: aws("kms").decrypt(KeyId=ids["key"], CiphertextBlob=b"x"),
    "alias": lambda aws, ids: aws("kms").create_alias(AliasName="alias/gpumpi-mine", TargetKeyId=ids["key"]),
    "policy of a role": lambda aws, ids: aws("iam").attach_role_policy(
        RoleName="gpumpi-theirs", PolicyArn="arn:aws:iam::aws:policy/AdministratorAccess"
    ),
    "trust policy": lambda aws, ids: aws("iam").update_assume_role_policy(
        RoleName="gpumpi-theirs", PolicyDocument=make_trust_policy({"AWS": f"arn:aws:iam::{ACCOUNT}:root"})
    ),
    "repository": lambda aws, ids: aws("ecr").delete_repository(repositoryName="gpumpi-theirs"),
    "log group": lambda aws, ids: aws("logs").delete_log_group(logGroupName="/gpumpi/theirs"),
}


def test_requests_to_change_resources_of_others_are_refused(aws: Client) -> None:
    ids = create_foreign_resources(aws)
    iam_policies.restrict_user(aws, POLICIES.values())
    accepted = []
    for name, attempt in ATTEMPTS.items():
        try:
            attempt(aws, ids)
        except ClientError as error:
            code = error.response["Error"]["Code"]
            accepted += [] if code.startswith(("AccessDenied", "UnauthorizedOperation")) else [(name, code)]
        else:
            accepted.append((name, "accepted"))
    assert accepted == []


@pytest.mark.parametrize("removed", ["Own", "Network", "Storage"])
def test_a_missing_condition_is_noticed(removed: str) -> None:
    """Without the condition of a statement, the policies would change resources of others."""
    statements = [statement for policy in POLICIES.values() for statement in policy["Statement"] if statement["Sid"] == removed]
    assert statements
    for statement in statements:
        policy = {"Version": "2012-10-17", "Statement": [{**statement, "Condition": {}}]}
        action = next(action for action in statement["Action"] if not READ.fullmatch(action))
        assert any(
            allows(Request(action, arn, context), policy)
            for _, arn in list_foreign_arns(action)
            for context in make_contexts(action)
        )
