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
from infra.cost.prices import read_snapshot
from infra.facts import price_list
from infra.inventory.resources import Inventory, list_resources
from infra.inventory.table import TABLE, is_known_resource_type
from infra.naming import BASE_TAGS, PROJECT
from localcloud.aws.policy_evaluation import list_statements
from tests.program import engine
from tests.program.engine import Deployment, Resource, deploy
from tests.program.worlds import STACKS, start_local_account

pytestmark = pytest.mark.xdist_group("every-stack")  # one worker deploys each stack once (see `deployed`)

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
"""Maps a stack file to the problems that `plan` reported before deployment."""
INVENTORIES: dict[Path, Inventory] = {}
"""Maps a stack file to the resources that the inventory listed before deployment."""


@cache
def deploy_stack(path: Path) -> Deployment:
    with start_local_account(path) as (settings, facts, mocks):
        with patch.object(price_list, "read", lambda request: read_snapshot(request.region)):
            planned = plan_command.build_report(stack_file.read_stack_file(path), offline=False, look_ahead=lambda: Changes({}))
        REFUSED[path] = [f"{refusal.check}: {sentence}" for refusal in planned.refused_answers for sentence in refusal.sentences]
        INVENTORIES[path] = list_resources(settings, facts)
        return deploy(settings, facts, mocks)


def stack_name(path: Path) -> str:
    return path.name.removeprefix("Pulumi.").removesuffix(".yaml")


@pytest.fixture(params=STACKS, ids=stack_name)
def path(request: pytest.FixtureRequest) -> Path:
    stack_file: Path = request.param
    return stack_file


@pytest.fixture
def stack(path: Path) -> Deployment:
    return deploy_stack(path)


on_kubernetes = pytest.mark.parametrize(
    "path", [path for path in STACKS if "kind: eks" in path.read_text(encoding="utf-8")], ids=stack_name, indirect=True
)


def build_cluster_name(path: Path) -> str:
    return f"gpumpi-{stack_name(path)}"


def read_tags(resource: Resource) -> dict[str, str]:
    """Return a resource's tags as a dictionary; an Auto Scaling group's `tags` property is a list."""
    tags = resource.inputs.get("tags", {})
    return {tag["key"]: tag["value"] for tag in tags} if isinstance(tags, list) else dict(tags)


def is_eks(stack: Deployment) -> bool:
    return bool(stack.find_resources(engine.CLUSTER))


def accepts_tags(token: str) -> bool:
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


def test_the_inventory_covers_every_registered_resource_type(stack: Deployment) -> None:
    assert {
        resource.type for resource in stack.resources if resource.custom and not is_known_resource_type(resource.type)
    } == set()


def test_stacks_use_every_resource_type_in_the_table() -> None:
    used = {resource.type for path in STACKS for resource in deploy_stack(path).resources}
    assert used >= set(TABLE)


def test_the_inventory_lists_the_aws_resources_registered_by_the_program(stack: Deployment, path: Path) -> None:
    registered = {(resource.type, resource.name) for resource in stack.resources if resource.type.startswith("aws:")}
    assert {(resource.type, resource.name) for resource in INVENTORIES[path].resources} == registered


def test_every_resource_belongs_to_a_component_of_the_program(stack: Deployment) -> None:
    components = {resource.type for resource in stack.resources if not resource.custom}
    assert all(re.fullmatch(rf"{PROJECT}:infra:[A-Z]\w+", component) for component in components)
    orphans = [item.name for item in stack.resources if item.custom and (not item.parents or item.parents[-1] not in components)]
    assert orphans == []


def test_resource_names_begin_with_the_cluster_name_and_have_no_index(stack: Deployment, path: Path) -> None:
    for resource in stack.resources:
        assert resource.name.startswith(f"{build_cluster_name(path)}-"), resource.name
        assert not re.search(r"-\d$", resource.name), f"{resource.name} ends with an index"


def test_urns_are_unique(stack: Deployment) -> None:
    urns = [resource.urn for resource in stack.resources]
    assert len(urns) == len(set(urns))


def test_resource_names_generated_by_pulumi_fit_aws_limits(stack: Deployment) -> None:
    assert not [resource.name for resource in stack.resources if len(resource.name) + 8 > NAME_LIMITS.get(resource.type, 1000)]


def test_every_taggable_resource_has_the_base_tags(stack: Deployment) -> None:
    untagged = [
        row.name for row in stack.resources if row.custom and accepts_tags(row.type) and not set(BASE_TAGS) <= set(read_tags(row))
    ]
    assert untagged == []


def test_every_tagged_resource_has_a_name_tag(stack: Deployment) -> None:
    assert not [
        item.name for item in stack.resources if item.custom and accepts_tags(item.type) and not read_tags(item).get("Name")
    ]


# --- network


def test_ingress_is_limited_to_security_groups_and_configured_addresses(stack: Deployment, path: Path) -> None:
    for rule in stack.find_resources(engine.INGRESS_RULE):
        if f"{build_cluster_name(path)}-master-ssh" in rule.name:
            assert (rule.inputs["fromPort"], rule.inputs["toPort"], rule.inputs["ipProtocol"]) == (22, 22, "tcp")
            assert rule.inputs["cidrIpv4"] in path.read_text(encoding="utf-8") and rule.inputs["cidrIpv4"] != "0.0.0.0/0"
            continue
        if (
            rule.name.startswith((f"{build_cluster_name(path)}-cluster-", f"{build_cluster_name(path)}-endpoint-"))
            and "nodes" not in rule.name
        ):
            assert (rule.inputs["fromPort"], rule.inputs["toPort"], rule.inputs["ipProtocol"]) == (443, 443, "tcp")
            assert rule.inputs["cidrIpv4"] in path.read_text(encoding="utf-8") and rule.inputs["cidrIpv4"] != "0.0.0.0/0"
            continue
        assert rule.inputs.get("referencedSecurityGroupId"), rule.name
        assert not {"cidrIpv4", "cidrIpv6", "prefixListId"} & set(rule.inputs), rule.name
    for group in stack.find_resources(engine.SECURITY_GROUP):
        assert not {"ingress", "egress"} & set(group.inputs), "rules are separate resources"


def test_all_traffic_between_nodes_is_allowed_in_both_directions(stack: Deployment, path: Path) -> None:
    group = stack.find_resource(engine.SECURITY_GROUP, f"{build_cluster_name(path)}-nodes").id
    for token in (engine.INGRESS_RULE, engine.EGRESS_RULE):
        (rule,) = stack.find_resources(token, "nodes-self")
        assert (rule.inputs["ipProtocol"], rule.inputs["securityGroupId"]) == ("-1", group)
        assert rule.inputs["referencedSecurityGroupId"] == group


def test_every_security_group_rule_has_a_description(stack: Deployment) -> None:
    assert not [
        rule.name
        for rule in [*stack.find_resources(engine.INGRESS_RULE), *stack.find_resources(engine.EGRESS_RULE)]
        if not rule.inputs["description"]
    ]


@on_kubernetes
def test_the_api_server_is_open_only_to_the_configured_addresses(stack: Deployment, path: Path) -> None:
    vpc = stack.find_resource(engine.CLUSTER).inputs["vpcConfig"]
    assert vpc["endpointPrivateAccess"] is True
    assert vpc["endpointPublicAccess"] is bool(vpc.get("publicAccessCidrs"))
    assert "0.0.0.0/0" not in vpc.get("publicAccessCidrs", []) or "allowAnywhere: true" in path.read_text(encoding="utf-8")


def test_nodes_are_in_private_subnets(stack: Deployment) -> None:
    public = {subnet.id for subnet in stack.find_resources(engine.SUBNET, "public")}
    for group in stack.find_resources(engine.NODE_GROUP):
        assert group.inputs["subnetIds"] and not public & set(group.inputs["subnetIds"])
    assert not any(subnet.inputs["mapPublicIpOnLaunch"] for subnet in stack.find_resources(engine.SUBNET))


# --- encryption and metadata


def test_imdsv2_is_required_and_limited_to_the_host(stack: Deployment) -> None:
    for template in stack.find_resources(engine.LAUNCH_TEMPLATE):
        options = template.inputs["metadataOptions"]
        assert (options["httpTokens"], options["httpPutResponseHopLimit"]) == ("required", 1)


def test_everything_at_rest_is_encrypted(stack: Deployment) -> None:
    for template in stack.find_resources(engine.LAUNCH_TEMPLATE):
        assert all(disk["ebs"]["encrypted"] == "true" for disk in template.inputs["blockDeviceMappings"])
    assert all(file_system.inputs["encrypted"] is True for file_system in stack.find_resources(engine.FILE_SYSTEM))
    assert all(log_group.inputs["kmsKeyId"] for log_group in stack.find_resources(engine.LOG_GROUP))
    assert len(stack.find_resources(engine.BUCKET_ENCRYPTION)) == len(stack.find_resources(engine.BUCKET))
    assert all(cluster.inputs["encryptionConfig"]["resources"] == ["secrets"] for cluster in stack.find_resources(engine.CLUSTER))


def test_every_kms_key_rotates(stack: Deployment) -> None:
    assert {key.inputs["enableKeyRotation"] for key in stack.find_resources(engine.KEY)} == {True}


def test_every_log_group_has_a_retention_period(stack: Deployment) -> None:
    assert all(log_group.inputs["retentionInDays"] > 0 for log_group in stack.find_resources(engine.LOG_GROUP))


# --- policies


def list_policy_documents(stack: Deployment) -> Iterator[tuple[Resource, Any]]:
    for resource in stack.resources:
        for key in ("policy", "assumeRolePolicy"):
            if resource.custom and key in resource.inputs and resource.type not in (engine.VPC_ENDPOINT, engine.IMAGE_EXPIRY):
                yield resource, json.loads(resource.inputs[key])


def test_the_policy_evaluator_can_parse_every_policy(stack: Deployment) -> None:
    judged = [list_statements(document) for _, document in list_policy_documents(stack)]
    assert len(judged) > 10 and all(judged)


def test_no_role_can_be_assumed_by_everyone(stack: Deployment) -> None:
    for role, document in list_policy_documents(stack):
        if role.type == engine.ROLE:
            assert all(statement["Principal"].keys() == {"Service"} for statement in list_statements(document)), role.name


# --- pools and outputs


def test_every_gpu_pool_is_tainted_and_the_system_pool_is_not(stack: Deployment) -> None:
    for group in stack.find_resources(engine.NODE_GROUP):
        is_gpu = "nvidia.com/gpu.present" in group.inputs["labels"]
        assert bool(group.inputs.get("taints")) is is_gpu


def test_every_interface_has_the_efa_security_groups(stack: Deployment) -> None:
    for template in stack.find_resources(engine.LAUNCH_TEMPLATE):
        interfaces = template.inputs.get("networkInterfaces", [])
        groups = {frozenset(card["securityGroups"]) for card in interfaces} or {frozenset(template.inputs["vpcSecurityGroupIds"])}
        if is_eks(stack):
            assert len(groups) == 1 and len(groups.pop()) == 2
        else:  # the head node's first interface also has the SSH security group
            nodes = stack.find_resource(engine.SECURITY_GROUP, "-nodes").id
            assert all(nodes in group for group in groups) and len(groups) <= 2


@on_kubernetes
def test_outputs_contain_what_users_need_to_connect(stack: Deployment) -> None:
    outputs = stack.outputs
    assert {"clusterName", "clusterEndpoint", "kubeconfig", "vpcId", "privateSubnetIds", "keyBucket", "pools", "connect"} <= set(
        outputs
    )
    assert outputs["clusterName"] == stack.find_resource(engine.CLUSTER).inputs["name"]
    for pool in outputs["pools"]:
        assert {"name", "nodeGroup", "instanceType", "gpus", "slots", "efa", "zones", "minSize", "desiredSize", "maxSize"} <= set(
            pool
        )
        assert pool["gpus"] > 0 and pool["slots"] == pool["gpus"] and len(pool["zones"]) == 1


def test_plan_refuses_none_of_the_stacks(path: Path) -> None:
    deploy_stack(path)
    assert REFUSED[path] == []
