"""Invariants of every stack in this repository, deployed to an emulated account with the stack's prerequisites."""

import inspect
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pulumi_aws
import pytest

from cli.stacks.plan import plan_command
from cli.stacks.plan.changes import Changes
from infra.config import stack_file
from infra.cost.prices import snapshot
from infra.facts import price_list
from infra.naming import BASE_TAGS, PROJECT
from localcloud.aws.policy_evaluation import statements
from tests.program import engine
from tests.program.engine import Deployment, Resource, deploy
from tests.program.worlds import STACKS, account_for

pytestmark = pytest.mark.xdist_group("every-stack")  # one worker deploys each stack once (see `deployed`)

TOKENS = {
    *("aws:autoscaling/group:Group", "aws:ec2/instance:Instance", "aws:iam/instanceProfile:InstanceProfile"),
    *("aws:autoscaling/schedule:Schedule", "aws:autoscaling/tag:Tag"),
    *("aws:cloudwatch/logGroup:LogGroup", "aws:kms/alias:Alias", "aws:kms/key:Key"),
    *("aws:ec2/defaultSecurityGroup:DefaultSecurityGroup", "aws:ec2/eip:Eip", "aws:ec2/flowLog:FlowLog"),
    *("aws:ec2/internetGateway:InternetGateway", "aws:ec2/launchTemplate:LaunchTemplate", "aws:ec2/natGateway:NatGateway"),
    *("aws:ec2/placementGroup:PlacementGroup", "aws:ec2/route:Route", "aws:ec2/routeTable:RouteTable"),
    *("aws:ec2/routeTableAssociation:RouteTableAssociation", "aws:ec2/securityGroup:SecurityGroup", "aws:ec2/subnet:Subnet"),
    *("aws:ec2/vpc:Vpc", "aws:ec2/vpcEndpoint:VpcEndpoint"),
    *("aws:ecr/lifecyclePolicy:LifecyclePolicy", "aws:ecr/repository:Repository"),
    *("aws:efs/accessPoint:AccessPoint", "aws:efs/backupPolicy:BackupPolicy", "aws:efs/fileSystem:FileSystem"),
    *("aws:efs/fileSystemPolicy:FileSystemPolicy", "aws:efs/mountTarget:MountTarget"),
    *("aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation", "aws:fsx/lustreFileSystem:LustreFileSystem"),
    *("aws:eks/accessEntry:AccessEntry", "aws:eks/accessPolicyAssociation:AccessPolicyAssociation", "aws:eks/addon:Addon"),
    *("aws:eks/cluster:Cluster", "aws:eks/nodeGroup:NodeGroup", "aws:eks/podIdentityAssociation:PodIdentityAssociation"),
    *("aws:iam/role:Role", "aws:iam/rolePolicy:RolePolicy", "aws:iam/rolePolicyAttachment:RolePolicyAttachment"),
    *("aws:s3/bucket:Bucket", "aws:s3/bucketPolicy:BucketPolicy", "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock"),
    "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration",
    "aws:s3/bucketOwnershipControls:BucketOwnershipControls",
    "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration",
    "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule",
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule",
    "pulumi:providers:kubernetes",
    *("kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition", "kubernetes:apps/v1:DaemonSet"),
    *("kubernetes:apps/v1:Deployment", "kubernetes:apps/v1:StatefulSet", "kubernetes:batch/v1:Job"),
    *("kubernetes:core/v1:ConfigMap", "kubernetes:core/v1:LimitRange"),
    *("kubernetes:core/v1:Namespace", "kubernetes:core/v1:PersistentVolume", "kubernetes:core/v1:PersistentVolumeClaim"),
    *("kubernetes:core/v1:Secret", "kubernetes:core/v1:Service", "kubernetes:core/v1:ServiceAccount"),
    *("kubernetes:networking.k8s.io/v1:NetworkPolicy", "kubernetes:scheduling.k8s.io/v1:PriorityClass"),
    *("kubernetes:rbac.authorization.k8s.io/v1:ClusterRole", "kubernetes:rbac.authorization.k8s.io/v1:ClusterRoleBinding"),
    *("kubernetes:rbac.authorization.k8s.io/v1:Role", "kubernetes:rbac.authorization.k8s.io/v1:RoleBinding"),
    "kubernetes:admissionregistration.k8s.io/v1:MutatingWebhookConfiguration",
    "kubernetes:admissionregistration.k8s.io/v1:ValidatingWebhookConfiguration",
    *("kubernetes:kueue.x-k8s.io/v1beta2:ClusterQueue", "kubernetes:kueue.x-k8s.io/v1beta2:LocalQueue"),
    *("kubernetes:kueue.x-k8s.io/v1beta2:ResourceFlavor", "kubernetes:storage.k8s.io/v1:StorageClass"),
}
"""Resource types that the program creates; the local cloud emulates each of them."""

NAME_LIMITS = {
    engine.ROLE: 64,
    engine.NODE_GROUP: 63,
    engine.BUCKET: 63,
    engine.PLACEMENT_GROUP: 255,
    engine.LAUNCH_TEMPLATE: 128,
    engine.SECURITY_GROUP: 255,
}
"""AWS length limits for names that Pulumi generates by adding 8 characters to the logical name."""


REFUSED: dict[Path, list[str]] = {}
"""Stack file -> problems that `plan` reported before deployment."""


@cache
def deployed(path: Path) -> Deployment:
    with account_for(path) as (settings, facts, mocks):
        with patch.object(price_list, "read", lambda wanted: snapshot(wanted.region)):
            planned = plan_command.examine(stack_file.read(path), offline=False, look_ahead=lambda: Changes({}))
        REFUSED[path] = [f"{one.check}: {sentence}" for one in planned.refused for sentence in one.sentences]
        return deploy(settings, facts, mocks)


def stack_name(path: Path) -> str:
    return path.name.removeprefix("Pulumi.").removesuffix(".yaml")


@pytest.fixture(params=STACKS, ids=stack_name)
def path(request: pytest.FixtureRequest) -> Path:
    found: Path = request.param
    return found


@pytest.fixture
def stack(path: Path) -> Deployment:
    return deployed(path)


on_kubernetes = pytest.mark.parametrize(
    "path", [path for path in STACKS if "kind: eks" in path.read_text(encoding="utf-8")], ids=stack_name, indirect=True
)


def cluster_name(path: Path) -> str:
    return f"gpumpi-{stack_name(path)}"


def tags_of(one: Resource) -> dict[str, str]:
    """Return a resource's tags as a dictionary; an Auto Scaling group's `tags` property is a list."""
    tags = one.inputs.get("tags", {})
    return {tag["key"]: tag["value"] for tag in tags} if isinstance(tags, list) else dict(tags)


def is_eks(stack: Deployment) -> bool:
    return bool(stack.created(engine.CLUSTER))


def takes_tags(token: str) -> bool:
    """Return whether the SDK's resource class has a `tags` argument."""
    parts = re.fullmatch(r"aws:(\w+)/\w+:(\w+)", token)
    if parts is None:
        return False
    module, kind = parts.groups()
    return "tags" in inspect.signature(getattr(getattr(pulumi_aws, module), kind)._internal_init).parameters


def test_every_stack_in_the_readme_exists() -> None:
    names = {path.name.split(".")[1] for path in STACKS}
    assert {
        "local",
        "01-single-g5",
        "02-p4d-efa",
        "03-p5-capacity-block",
        "04-spot-scale-to-zero",
        "05-existing-vpc-and-efs",
        "06-closed-network",
        "07-targeted-odcr",
        "08-ec2-mnist",
        "local-ec2",
    } <= names


def test_every_stack_states_its_purpose(path: Path) -> None:
    assert path.read_text(encoding="utf-8").startswith("# ")


# --- resources


def test_only_known_resource_types_are_used(stack: Deployment) -> None:
    assert {one.type for one in stack.resources if one.custom} <= TOKENS


def test_every_known_resource_type_is_used_by_a_stack() -> None:
    used = {one.type for path in STACKS for one in deployed(path).resources}
    assert used >= TOKENS


def test_every_resource_belongs_to_one_of_our_components(stack: Deployment) -> None:
    components = {one.type for one in stack.resources if not one.custom}
    assert all(re.fullmatch(rf"{PROJECT}:infra:[A-Z]\w+", one) for one in components)
    orphans = [one.name for one in stack.resources if one.custom and (not one.parents or one.parents[-1] not in components)]
    assert orphans == []


def test_names_begin_with_the_parent_s_name_and_have_no_index(stack: Deployment, path: Path) -> None:
    for one in stack.resources:
        assert one.name.startswith(f"{cluster_name(path)}-"), one.name
        assert not re.search(r"-\d$", one.name), f"{one.name} ends with an index"


def test_urns_are_unique(stack: Deployment) -> None:
    urns = [one.urn for one in stack.resources]
    assert len(urns) == len(set(urns))


def test_names_generated_by_pulumi_fit_aws_limits(stack: Deployment) -> None:
    assert not [one.name for one in stack.resources if len(one.name) + 8 > NAME_LIMITS.get(one.type, 1000)]


def test_every_taggable_resource_has_the_base_tags(stack: Deployment) -> None:
    untagged = [
        one.name for one in stack.resources if one.custom and takes_tags(one.type) and not set(BASE_TAGS) <= set(tags_of(one))
    ]
    assert untagged == []


def test_every_tagged_resource_has_a_name_tag(stack: Deployment) -> None:
    assert not [one.name for one in stack.resources if one.custom and takes_tags(one.type) and not tags_of(one).get("Name")]


# --- network


def test_ingress_is_limited_to_security_groups_and_the_file_s_addresses(stack: Deployment, path: Path) -> None:
    for rule in stack.created(engine.INGRESS_RULE):
        if f"{cluster_name(path)}-master-ssh" in rule.name:
            assert (rule.inputs["fromPort"], rule.inputs["toPort"], rule.inputs["ipProtocol"]) == (22, 22, "tcp")
            assert rule.inputs["cidrIpv4"] in path.read_text(encoding="utf-8") and rule.inputs["cidrIpv4"] != "0.0.0.0/0"
            continue
        if (
            rule.name.startswith((f"{cluster_name(path)}-cluster-", f"{cluster_name(path)}-endpoint-"))
            and "nodes" not in rule.name
        ):
            assert (rule.inputs["fromPort"], rule.inputs["toPort"], rule.inputs["ipProtocol"]) == (443, 443, "tcp")
            assert rule.inputs["cidrIpv4"] in path.read_text(encoding="utf-8") and rule.inputs["cidrIpv4"] != "0.0.0.0/0"
            continue
        assert rule.inputs.get("referencedSecurityGroupId"), rule.name
        assert not {"cidrIpv4", "cidrIpv6", "prefixListId"} & set(rule.inputs), rule.name
    for group in stack.created(engine.SECURITY_GROUP):
        assert not {"ingress", "egress"} & set(group.inputs), "rules are separate resources"


def test_all_traffic_between_nodes_is_allowed_in_both_directions(stack: Deployment, path: Path) -> None:
    group = stack.only(engine.SECURITY_GROUP, f"{cluster_name(path)}-nodes").id
    for token in (engine.INGRESS_RULE, engine.EGRESS_RULE):
        (rule,) = stack.created(token, "nodes-self")
        assert (rule.inputs["ipProtocol"], rule.inputs["securityGroupId"]) == ("-1", group)
        assert rule.inputs["referencedSecurityGroupId"] == group


def test_every_rule_has_a_description(stack: Deployment) -> None:
    assert not [
        one.name
        for one in [*stack.created(engine.INGRESS_RULE), *stack.created(engine.EGRESS_RULE)]
        if not one.inputs["description"]
    ]


@on_kubernetes
def test_the_api_is_open_only_to_the_stack_s_addresses(stack: Deployment, path: Path) -> None:
    vpc = stack.only(engine.CLUSTER).inputs["vpcConfig"]
    assert vpc["endpointPrivateAccess"] is True
    assert vpc["endpointPublicAccess"] is bool(vpc.get("publicAccessCidrs"))
    assert "0.0.0.0/0" not in vpc.get("publicAccessCidrs", []) or "allowAnywhere: true" in path.read_text(encoding="utf-8")


def test_nodes_are_in_private_subnets(stack: Deployment) -> None:
    public = {one.id for one in stack.created(engine.SUBNET, "public")}
    for group in stack.created(engine.NODE_GROUP):
        assert group.inputs["subnetIds"] and not public & set(group.inputs["subnetIds"])
    assert not any(one.inputs["mapPublicIpOnLaunch"] for one in stack.created(engine.SUBNET))


# --- encryption and metadata


def test_imdsv2_is_required_and_limited_to_the_host(stack: Deployment) -> None:
    for template in stack.created(engine.LAUNCH_TEMPLATE):
        options = template.inputs["metadataOptions"]
        assert (options["httpTokens"], options["httpPutResponseHopLimit"]) == ("required", 1)


def test_everything_at_rest_is_encrypted(stack: Deployment) -> None:
    for template in stack.created(engine.LAUNCH_TEMPLATE):
        assert all(disk["ebs"]["encrypted"] == "true" for disk in template.inputs["blockDeviceMappings"])
    assert all(one.inputs["encrypted"] is True for one in stack.created(engine.FILE_SYSTEM))
    assert all(one.inputs["kmsKeyId"] for one in stack.created(engine.LOG_GROUP))
    assert len(stack.created(engine.BUCKET_ENCRYPTION)) == len(stack.created(engine.BUCKET))
    assert all(one.inputs["encryptionConfig"]["resources"] == ["secrets"] for one in stack.created(engine.CLUSTER))


def test_every_key_rotates(stack: Deployment) -> None:
    assert {one.inputs["enableKeyRotation"] for one in stack.created(engine.KEY)} == {True}


def test_every_log_group_has_a_retention(stack: Deployment) -> None:
    assert all(one.inputs["retentionInDays"] > 0 for one in stack.created(engine.LOG_GROUP))


# --- policies


def documents(stack: Deployment) -> Iterator[tuple[Resource, Any]]:
    for one in stack.resources:
        for key in ("policy", "assumeRolePolicy"):
            if one.custom and key in one.inputs and one.type not in (engine.VPC_ENDPOINT, engine.IMAGE_EXPIRY):
                yield one, json.loads(one.inputs[key])


def test_the_policy_evaluator_understands_every_policy(stack: Deployment) -> None:
    judged = [statements(document) for _, document in documents(stack)]
    assert len(judged) > 10 and all(judged)


def test_no_role_can_be_assumed_by_everyone(stack: Deployment) -> None:
    for role, document in documents(stack):
        if role.type == engine.ROLE:
            assert all(statement["Principal"].keys() == {"Service"} for statement in statements(document)), role.name


# --- pools and outputs


def test_every_gpu_pool_is_tainted_and_the_system_pool_is_not(stack: Deployment) -> None:
    for group in stack.created(engine.NODE_GROUP):
        is_gpu = "nvidia.com/gpu.present" in group.inputs["labels"]
        assert bool(group.inputs.get("taints")) is is_gpu


def test_efa_security_groups_are_on_every_interface(stack: Deployment) -> None:
    for template in stack.created(engine.LAUNCH_TEMPLATE):
        interfaces = template.inputs.get("networkInterfaces", [])
        groups = {frozenset(one["securityGroups"]) for one in interfaces} or {frozenset(template.inputs["vpcSecurityGroupIds"])}
        if is_eks(stack):
            assert len(groups) == 1 and len(groups.pop()) == 2
        else:  # the head node's first interface also has the SSH security group
            nodes = stack.only(engine.SECURITY_GROUP, "-nodes").id
            assert all(nodes in one for one in groups) and len(groups) <= 2


@on_kubernetes
def test_outputs_have_what_users_need(stack: Deployment) -> None:
    found = stack.outputs
    assert {"clusterName", "clusterEndpoint", "kubeconfig", "vpcId", "privateSubnetIds", "keyBucket", "pools", "connect"} <= set(
        found
    )
    assert found["clusterName"] == stack.only(engine.CLUSTER).inputs["name"]
    for pool in found["pools"]:
        assert {"name", "nodeGroup", "instanceType", "gpus", "slots", "efa", "zones", "minSize", "desiredSize", "maxSize"} <= set(
            pool
        )
        assert pool["gpus"] > 0 and pool["slots"] == pool["gpus"] and len(pool["zones"]) == 1


def test_plan_does_not_refuse_it(path: Path) -> None:
    deployed(path)
    assert REFUSED[path] == []
