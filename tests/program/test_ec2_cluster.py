"""EC2 clusters: head node, workers, user data and permissions."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from infra.boot.ec2_node import LIMIT
from localcloud.aws.policy_evaluation import Request, allows
from tests.program import engine
from tests.program.engine import Deployment, Resource, deploy
from tests.pure.world import facts, plain_settings, pool

JOIN = Path(__file__).parents[2] / "amis" / "join"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl ada@example.com"


def deploy_cluster(*pools: dict[str, Any], **sections: Any) -> Deployment:
    settings = plain_settings(*pools, **sections)
    return deploy(settings, facts(settings))


@pytest.fixture(scope="module")
def plain() -> Deployment:
    return deploy_cluster(target={"ssh": {"publicKeys": [KEY]}})


def template(stack: Deployment, role: str) -> Resource:
    return stack.only(engine.LAUNCH_TEMPLATE, f"-{role}")


def script(stack: Deployment, role: str) -> str:
    owner = stack.only(engine.INSTANCE) if role == "master" else template(stack, role)
    return base64.b64decode(owner.inputs.get("userDataBase64") or owner.inputs["userData"]).decode()


def node_settings(stack: Deployment, role: str) -> dict[str, Any]:
    text = script(stack, role)
    values: dict[str, Any] = json.loads(text[text.index('{\n "stack"') : text.index("\nEND")])
    return values


def group(stack: Deployment) -> Any:
    return stack.only(engine.GROUP).inputs


# --- nodes


def test_workers_are_in_service_only_after_they_have_joined(plain: Deployment) -> None:
    (hook,) = group(plain)["initialLifecycleHooks"]
    assert hook["lifecycleTransition"] == "autoscaling:EC2_INSTANCE_LAUNCHING"
    assert hook["defaultResult"] == "ABANDON" and hook["name"] == node_settings(plain, "worker")["lifecycle_hook"]


def test_a_worker_gives_up_before_its_group_ends_the_wait() -> None:
    for name, seconds in (("g6.48xlarge", 1080), ("p5.48xlarge", 1500)):
        stack = deploy_cluster(pool("workers", name, 4))
        assert group(stack)["initialLifecycleHooks"][0]["heartbeatTimeout"] == seconds
        assert node_settings(stack, "worker")["join_seconds"] == seconds - 180


def test_the_time_limit_of_workers_does_not_replace_the_head_node() -> None:
    stacks = [deploy_cluster(pool("workers", name, 4)) for name in ("g6.48xlarge", "p5.48xlarge")]
    assert {node_settings(stack, "master")["join_seconds"] for stack in stacks} == {720}


def test_the_group_has_the_configured_size(plain: Deployment) -> None:
    assert (group(plain)["minSize"], group(plain)["desiredCapacity"], group(plain)["maxSize"]) == (0, 4, 4)


def test_a_cluster_without_workers_can_be_created() -> None:
    assert group(deploy_cluster(pool("workers", "g6.48xlarge", 4)))["desiredCapacity"] == 0


def test_nodes_are_private_without_ssh_users(plain: Deployment) -> None:
    private = plain.only(engine.SUBNET, "private").id
    assert group(plain)["vpcZoneIdentifiers"] == [private]
    assert {interface["subnetId"] for interface in template(plain, "master").inputs["networkInterfaces"]} == {private}
    assert not plain.created(engine.EIP, "master") and "headNodePublicAddress" not in plain.outputs


def test_ssh_is_open_only_on_the_head_node_and_only_to_the_given_addresses() -> None:
    stack = deploy_cluster(target={"ssh": {"publicKeys": [KEY], "cidrs": ["203.0.113.0/24"]}})
    (rule,) = [rule for rule in stack.created(engine.INGRESS_RULE) if "cidrIpv4" in rule.inputs]
    assert (rule.inputs["cidrIpv4"], rule.inputs["fromPort"], rule.inputs["toPort"]) == ("203.0.113.0/24", 22, 22)
    ssh_group = rule.inputs["securityGroupId"]
    assert ssh_group in template(stack, "master").inputs["networkInterfaces"][0]["securityGroups"]
    assert ssh_group not in json.dumps(template(stack, "workers").inputs["networkInterfaces"])
    assert stack.outputs["headNodePublicAddress"] == "198.51.100.7"
    public = stack.only(engine.SUBNET, "public").id
    assert template(stack, "master").inputs["networkInterfaces"][0]["subnetId"] == public


@pytest.mark.mission("C", "placement group")
def test_workers_have_the_efa_layout_of_their_type_in_a_placement_group(plain: Deployment) -> None:
    inputs = template(plain, "workers").inputs
    assert [interface["interfaceType"] for interface in inputs["networkInterfaces"]] == ["interface", "efa-only"]
    assert inputs["placement"]["groupName"] == plain.only(engine.PLACEMENT_GROUP).state["name"]


def test_a_head_node_of_another_type_only_launches(plain: Deployment) -> None:
    assert (
        node_settings(plain, "master")["slots"],
        node_settings(plain, "master")["idle_slots"],
        node_settings(plain, "worker")["slots"],
    ) == (0, 8, 8)
    assert "placement" not in template(plain, "master").inputs


def test_a_head_node_of_the_workers_type_also_runs_ranks() -> None:
    stack = deploy_cluster(target={"headNodeType": "g6.48xlarge"})
    assert node_settings(stack, "master")["slots"] == 8
    assert template(stack, "master").inputs["placement"] == template(stack, "workers").inputs["placement"]
    assert [card["interfaceType"] for card in template(stack, "master").inputs["networkInterfaces"]] == ["interface", "efa-only"]


def test_disks_are_encrypted_and_imdsv2_is_required(plain: Deployment) -> None:
    for template in plain.created(engine.LAUNCH_TEMPLATE):
        assert template.inputs["metadataOptions"]["httpTokens"] == "required"
        assert [disk["ebs"]["encrypted"] for disk in template.inputs["blockDeviceMappings"]] == ["true"]


def test_workers_can_be_spot_but_the_head_node_is_not() -> None:
    stack = deploy_cluster(pool("workers", "g6.48xlarge", 4, capacity={"kind": "spot"}), target={"headNodeType": "g6.48xlarge"})
    assert template(stack, "workers").inputs["instanceMarketOptions"] == {"marketType": "spot"}
    assert "instanceMarketOptions" not in template(stack, "master").inputs


# --- user data


def test_the_join_service_understands_the_nodes_settings(
    plain: Deployment, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(JOIN))
    from gpumpi_join.cluster_file import ClusterFile

    for role in ("master", "worker"):
        file = tmp_path / role
        file.write_text(json.dumps(node_settings(plain, role)))
        read = ClusterFile.read(file)
        assert (read.role, read.auto_scaling_group) == (role, group(plain)["name"])
        assert read.bucket == plain.outputs["keyBucket"]
        assert {"master": read.master_role_id, "worker": read.worker_role_id} == plain.outputs["roleIds"]


def test_user_data_fits_and_has_no_secret(plain: Deployment) -> None:
    for role in ("master", "worker"):
        text = script(plain, role)
        assert len(text.encode()) < LIMIT and "PRIVATE" not in text and "AKIA" not in text
        assert KEY in text


def test_the_file_system_is_mounted_on_all_nodes_after_its_mount_target_exists(plain: Deployment) -> None:
    for role in ("master", "worker"):
        assert f"{plain.outputs['fileSystemId']}:/ /shared efs _netdev,tls,iam,accesspoint=" in script(plain, role)
    target = plain.only(engine.MOUNT_TARGET).name
    assert target in plain.names_before(plain.only(engine.INSTANCE)) & plain.names_before(plain.only(engine.GROUP))


def test_a_cluster_without_a_file_system_mounts_none() -> None:
    stack = deploy_cluster(storage={"efs": "none"})
    assert "mount" not in script(stack, "worker") and not stack.created(engine.ROLE_POLICY, "storage")


# --- permissions


def policies_of(stack: Deployment, role: str) -> list[Any]:
    return [json.loads(policy.inputs["policy"]) for policy in stack.created(engine.ROLE_POLICY, f"-{role}-role-")]


BUCKET = "arn:aws:mock:us-west-2:123456789012:gpumpi-test-keys"
WORKERS = "arn:aws:autoscaling:us-west-2:123456789012:autoScalingGroup:1:autoScalingGroupName/gpumpi-test-workers"
MASTER_ID, WORKER_ID = "AROAM:i-0123456789abcdef0", "AROAW:i-0fedcba9876543210"


@pytest.mark.mission("C", "least privilege")
@pytest.mark.parametrize(
    ("role", "action", "resource", "allowed"),
    [
        ("worker", "autoscaling:CompleteLifecycleAction", WORKERS, True),
        ("master", "autoscaling:CompleteLifecycleAction", WORKERS, False),
        ("worker", "s3:PutObject", f"{BUCKET}/nodes/{WORKER_ID}/notice.json", True),
        ("worker", "s3:PutObject", f"{BUCKET}/nodes/{MASTER_ID}/notice.json", False),
        ("worker", "s3:GetObject", f"{BUCKET}/nodes/{MASTER_ID}/notice.json", True),
        ("worker", "s3:DeleteObject", f"{BUCKET}/nodes/{WORKER_ID}/notice.json", False),
        ("worker", "ec2:CreateTags", "*", False),
        ("worker", "iam:PassRole", "*", False),
        ("master", "ec2:DescribeInstances", "*", True),
        ("master", "autoscaling:SetDesiredCapacity", WORKERS, False),
    ],
)
def test_a_node_has_only_the_permissions_for_its_role(
    plain: Deployment, role: str, action: str, resource: str, allowed: bool
) -> None:
    request = Request(action, resource, {"aws:userid": WORKER_ID if role == "worker" else MASTER_ID})
    assert allows(request, *policies_of(plain, role)) is allowed


def test_roles_are_complete_before_an_instance_boots(plain: Deployment) -> None:
    for resource, role in ((plain.only(engine.INSTANCE), "master"), (plain.only(engine.GROUP), "worker")):
        policies = {policy.name for policy in plain.created(engine.ROLE_POLICY, f"-{role}-role-")}
        assert policies and policies <= plain.names_before(resource)


# --- sizes and outputs


def test_an_existing_group_keeps_its_size() -> None:
    from dataclasses import replace

    from infra.facts.model import Existing, ExistingPool

    settings = plain_settings()
    workers = ExistingPool("us-west-2b", 0, 1, 4, zones=("us-west-2b",), instance_type="g6.48xlarge", placement="group")
    running = replace(facts(settings), existing=Existing(zones=("us-west-2b",), pools={"workers": workers}, ami_id="ami-1"))
    group = deploy(settings, running).only(engine.GROUP)
    assert group.inputs["desiredCapacity"] == 1 and "desiredCapacity" in group.ignored_changes


@pytest.mark.mission("C", "outputs")
def test_outputs_have_the_connect_commands_and_the_ids(plain: Deployment) -> None:
    outputs = plain.outputs
    assert {"clusterName", "headNodeId", "headNodeAddress", "autoScalingGroup", "keyBucket", "fileSystemId", "connect"} <= set(
        outputs
    )
    assert not [name for name in outputs if name.startswith("master")]
    assert outputs["workers"]["slots"] == 8 and outputs["workers"]["efa"] == 1
    assert outputs["connect"]["ssh"] == "scripts/cluster ssh -s test"


def test_there_are_no_kubernetes_resources(plain: Deployment) -> None:
    assert not [resource.type for resource in plain.resources if resource.type.startswith(("aws:eks/", "kubernetes:"))]
