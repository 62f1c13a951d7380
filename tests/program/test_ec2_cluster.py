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
from tests.pure.world import account_facts, ec2_settings, pool

JOIN = Path(__file__).parents[2] / "amis" / "join"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl ada@example.com"


def deploy_cluster(*pools: dict[str, Any], **sections: Any) -> Deployment:
    settings = ec2_settings(*pools, **sections)
    return deploy(settings, account_facts(settings))


@pytest.fixture(scope="module")
def default_cluster() -> Deployment:
    return deploy_cluster(target={"ssh": {"publicKeys": [KEY]}})


def find_launch_template(stack: Deployment, role: str) -> Resource:
    return stack.find_resource(engine.LAUNCH_TEMPLATE, f"-{role}")


def read_user_data(stack: Deployment, role: str) -> str:
    owner = stack.find_resource(engine.INSTANCE) if role == "master" else find_launch_template(stack, role)
    return base64.b64decode(owner.inputs.get("userDataBase64") or owner.inputs["userData"]).decode()


def read_node_settings(stack: Deployment, role: str) -> dict[str, Any]:
    text = read_user_data(stack, role)
    values: dict[str, Any] = json.loads(text[text.index('{\n "stack"') : text.index("\nEND")])
    return values


def find_scaling_group(stack: Deployment) -> Any:
    return stack.find_resource(engine.GROUP).inputs


# --- nodes


def test_workers_enter_service_only_after_they_have_joined(default_cluster: Deployment) -> None:
    (hook,) = find_scaling_group(default_cluster)["initialLifecycleHooks"]
    assert hook["lifecycleTransition"] == "autoscaling:EC2_INSTANCE_LAUNCHING"
    assert hook["defaultResult"] == "ABANDON" and hook["name"] == read_node_settings(default_cluster, "worker")["lifecycle_hook"]


def test_a_worker_gives_up_before_the_lifecycle_hook_times_out() -> None:
    for name, seconds in (("g6.48xlarge", 1080), ("p5.48xlarge", 1500)):
        stack = deploy_cluster(pool("workers", name, 4))
        assert find_scaling_group(stack)["initialLifecycleHooks"][0]["heartbeatTimeout"] == seconds
        assert read_node_settings(stack, "worker")["join_seconds"] == seconds - 180


def test_the_join_time_limit_of_workers_does_not_change_the_head_node() -> None:
    stacks = [deploy_cluster(pool("workers", name, 4)) for name in ("g6.48xlarge", "p5.48xlarge")]
    assert {read_node_settings(stack, "master")["join_seconds"] for stack in stacks} == {720}


def test_the_worker_group_has_the_configured_size(default_cluster: Deployment) -> None:
    assert (
        find_scaling_group(default_cluster)["minSize"],
        find_scaling_group(default_cluster)["desiredCapacity"],
        find_scaling_group(default_cluster)["maxSize"],
    ) == (0, 4, 4)


def test_a_cluster_without_workers_can_be_created() -> None:
    assert find_scaling_group(deploy_cluster(pool("workers", "g6.48xlarge", 4)))["desiredCapacity"] == 0


def test_nodes_are_private_if_there_are_no_ssh_users(default_cluster: Deployment) -> None:
    private = default_cluster.find_resource(engine.SUBNET, "private").id
    assert find_scaling_group(default_cluster)["vpcZoneIdentifiers"] == [private]
    assert {
        interface["subnetId"] for interface in find_launch_template(default_cluster, "master").inputs["networkInterfaces"]
    } == {private}
    assert not default_cluster.find_resources(engine.EIP, "master") and "headNodePublicAddress" not in default_cluster.outputs


def test_ssh_is_open_only_on_the_head_node_and_only_to_the_configured_addresses() -> None:
    stack = deploy_cluster(target={"ssh": {"publicKeys": [KEY], "cidrs": ["203.0.113.0/24"]}})
    (rule,) = [rule for rule in stack.find_resources(engine.INGRESS_RULE) if "cidrIpv4" in rule.inputs]
    assert (rule.inputs["cidrIpv4"], rule.inputs["fromPort"], rule.inputs["toPort"]) == ("203.0.113.0/24", 22, 22)
    ssh_group = rule.inputs["securityGroupId"]
    assert ssh_group in find_launch_template(stack, "master").inputs["networkInterfaces"][0]["securityGroups"]
    assert ssh_group not in json.dumps(find_launch_template(stack, "workers").inputs["networkInterfaces"])
    assert stack.outputs["headNodePublicAddress"] == "198.51.100.7"
    public = stack.find_resource(engine.SUBNET, "public").id
    assert find_launch_template(stack, "master").inputs["networkInterfaces"][0]["subnetId"] == public


@pytest.mark.mission("C", "placement group")
def test_workers_have_the_efa_interfaces_of_their_type_and_a_placement_group(default_cluster: Deployment) -> None:
    inputs = find_launch_template(default_cluster, "workers").inputs
    assert [interface["interfaceType"] for interface in inputs["networkInterfaces"]] == ["interface", "efa-only"]
    assert inputs["placement"]["groupName"] == default_cluster.find_resource(engine.PLACEMENT_GROUP).state["name"]


def test_a_head_node_of_another_instance_type_runs_ranks_only_without_workers(default_cluster: Deployment) -> None:
    assert (
        read_node_settings(default_cluster, "master")["slots"],
        read_node_settings(default_cluster, "master")["idle_slots"],
        read_node_settings(default_cluster, "worker")["slots"],
    ) == (0, 8, 8)
    assert "placement" not in find_launch_template(default_cluster, "master").inputs


def test_a_head_node_of_the_same_instance_type_as_the_workers_also_runs_ranks() -> None:
    stack = deploy_cluster(target={"headNodeType": "g6.48xlarge"})
    assert read_node_settings(stack, "master")["slots"] == 8
    assert find_launch_template(stack, "master").inputs["placement"] == find_launch_template(stack, "workers").inputs["placement"]
    assert [card["interfaceType"] for card in find_launch_template(stack, "master").inputs["networkInterfaces"]] == [
        "interface",
        "efa-only",
    ]


def test_disks_are_encrypted_and_imdsv2_is_required(default_cluster: Deployment) -> None:
    for template in default_cluster.find_resources(engine.LAUNCH_TEMPLATE):
        assert template.inputs["metadataOptions"]["httpTokens"] == "required"
        assert [disk["ebs"]["encrypted"] for disk in template.inputs["blockDeviceMappings"]] == ["true"]


def test_workers_can_be_spot_instances_but_the_head_node_is_not() -> None:
    stack = deploy_cluster(pool("workers", "g6.48xlarge", 4, capacity={"kind": "spot"}), target={"headNodeType": "g6.48xlarge"})
    assert find_launch_template(stack, "workers").inputs["instanceMarketOptions"] == {"marketType": "spot"}
    assert "instanceMarketOptions" not in find_launch_template(stack, "master").inputs


# --- user data


def test_the_join_service_can_parse_the_node_settings(
    default_cluster: Deployment, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(JOIN))
    from gpumpi_join.cluster_file import ClusterFile

    for role in ("master", "worker"):
        file = tmp_path / role
        file.write_text(json.dumps(read_node_settings(default_cluster, role)))
        read = ClusterFile.read(file)
        assert (read.role, read.auto_scaling_group) == (role, find_scaling_group(default_cluster)["name"])
        assert read.bucket == default_cluster.outputs["keyBucket"]
        assert {"master": read.master_role_id, "worker": read.worker_role_id} == default_cluster.outputs["roleIds"]


def test_user_data_fits_the_size_limit_and_contains_no_secret(default_cluster: Deployment) -> None:
    for role in ("master", "worker"):
        text = read_user_data(default_cluster, role)
        assert len(text.encode()) < LIMIT and "PRIVATE" not in text and "AKIA" not in text
        assert KEY in text


def test_the_file_system_is_mounted_on_all_nodes_after_its_mount_target_exists(default_cluster: Deployment) -> None:
    for role in ("master", "worker"):
        assert f"{default_cluster.outputs['fileSystemId']}:/ /shared efs _netdev,tls,iam,accesspoint=" in read_user_data(
            default_cluster, role
        )
    target = default_cluster.find_resource(engine.MOUNT_TARGET).name
    assert target in default_cluster.list_dependency_names(
        default_cluster.find_resource(engine.INSTANCE)
    ) & default_cluster.list_dependency_names(default_cluster.find_resource(engine.GROUP))


def test_a_cluster_without_a_file_system_mounts_nothing() -> None:
    stack = deploy_cluster(storage={"efs": "none"})
    assert "mount" not in read_user_data(stack, "worker") and not stack.find_resources(engine.ROLE_POLICY, "storage")


# --- permissions


def list_role_policies(stack: Deployment, role: str) -> list[Any]:
    return [json.loads(policy.inputs["policy"]) for policy in stack.find_resources(engine.ROLE_POLICY, f"-{role}-role-")]


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
    default_cluster: Deployment, role: str, action: str, resource: str, allowed: bool
) -> None:
    request = Request(action, resource, {"aws:userid": WORKER_ID if role == "worker" else MASTER_ID})
    assert allows(request, *list_role_policies(default_cluster, role)) is allowed


def test_role_policies_are_attached_before_an_instance_boots(default_cluster: Deployment) -> None:
    for resource, role in (
        (default_cluster.find_resource(engine.INSTANCE), "master"),
        (default_cluster.find_resource(engine.GROUP), "worker"),
    ):
        policies = {policy.name for policy in default_cluster.find_resources(engine.ROLE_POLICY, f"-{role}-role-")}
        assert policies and policies <= default_cluster.list_dependency_names(resource)


# --- sizes and outputs


def test_an_existing_worker_group_keeps_its_size() -> None:
    from dataclasses import replace

    from infra.facts.model import Existing, ExistingPool

    settings = ec2_settings()
    workers = ExistingPool("us-west-2b", 0, 1, 4, zones=("us-west-2b",), instance_type="g6.48xlarge", placement="group")
    running = replace(
        account_facts(settings), existing=Existing(zones=("us-west-2b",), pools={"workers": workers}, ami_id="ami-1")
    )
    group = deploy(settings, running).find_resource(engine.GROUP)
    assert group.inputs["desiredCapacity"] == 1 and "desiredCapacity" in group.ignored_changes


@pytest.mark.mission("C", "outputs")
def test_outputs_contain_the_connect_commands_and_resource_ids(default_cluster: Deployment) -> None:
    outputs = default_cluster.outputs
    assert {"clusterName", "headNodeId", "headNodeAddress", "autoScalingGroup", "keyBucket", "fileSystemId", "connect"} <= set(
        outputs
    )
    assert not [name for name in outputs if name.startswith("master")]
    assert outputs["workers"]["slots"] == 8 and outputs["workers"]["efa"] == 1
    assert outputs["connect"]["ssh"] == "scripts/cluster ssh -s test"


def test_an_ec2_cluster_has_no_kubernetes_resources(default_cluster: Deployment) -> None:
    assert not [resource.type for resource in default_cluster.resources if resource.type.startswith(("aws:eks/", "kubernetes:"))]
