"""Node groups and launch templates for each pool setting."""

import base64
import email
from dataclasses import replace
from typing import Any

import pytest
import yaml

from infra.facts import CapacityReservation as ReservationFact
from infra.facts import Existing, ExistingPool
from infra.health import faults
from infra.naming import AUTOSCALER_TAG
from infra.plan import eks_pools
from tests.program import engine
from tests.program.engine import Deployment, deploy
from tests.pure import world

TEMPLATE_TAG = f"{AUTOSCALER_TAG}/node-template"
CLUSTER_GROUP, NODES_GROUP = "sg-cluster", "gpumpi-test-nodes-id"


def pool(instance_type: str = "g5.8xlarge", *, autoscaler: bool = True, platform: Any = None, **more: Any) -> Deployment:
    wanted = {"autoscaler": autoscaler, **(platform or {})}
    settings = world.settings(world.pool("train", instance_type, **{"maxSize": 4, **more}), platform=wanted)
    reservation = ReservationFact(world.RESERVATION, "default", "active", instance_type, "us-west-2b", total=4, available=4)
    return deploy(settings, world.facts(settings, reservations={world.RESERVATION: reservation}))


def template(of: Deployment) -> Any:
    return of.only(engine.LAUNCH_TEMPLATE, "train").inputs


def group(of: Deployment) -> engine.Resource:
    return of.only(engine.NODE_GROUP, "train")


def group_tags(of: Deployment, name: str = "train") -> dict[str, str]:
    """Return the tags of the pool's Auto Scaling group."""
    tags = [one.inputs for one in of.created(engine.GROUP_TAG, f"-{name}-tag-")]
    assert {one["autoscalingGroupName"] for one in tags} == {f"eks-gpumpi-test-{name}"}
    return {one["tag"]["key"]: one["tag"]["value"] for one in tags}


def boot(of: Deployment, name: str = "train") -> list[Any]:
    """Return the parts of the user data, beginning with the parsed NodeConfig."""
    text = base64.b64decode(of.only(engine.LAUNCH_TEMPLATE, name).inputs["userData"]).decode()
    parts = [part.get_payload() for part in email.message_from_string(text).get_payload()]  # type: ignore[union-attr]
    return [yaml.safe_load(str(parts[0]))["spec"], *parts[1:]]


@pytest.fixture(scope="module")
def plain() -> Deployment:
    return pool("g5.xlarge")


@pytest.fixture(scope="module")
def fabric() -> Deployment:
    return pool("p4d.24xlarge")


# --- pods


@pytest.mark.parametrize(
    ("instance_type", "efa", "flags"),
    [("p5.48xlarge", None, ["--max-pods=51"]), ("p5e.48xlarge", None, ["--max-pods=51"]), ("p5.48xlarge", False, None)],
)
def test_a_p5_accepts_only_pods_that_get_an_address(instance_type: str, efa: bool | None, flags: list[str] | None) -> None:
    stack = pool(instance_type, **({} if efa is None else {"efa": efa}))
    assert boot(stack)[0].get("kubelet", {}).get("flags") == flags


# --- interfaces and security groups


@pytest.mark.parametrize(
    ("instance_type", "plain_interfaces", "efa_interfaces"),
    [("g5.8xlarge", 1, 1), ("p4d.24xlarge", 1, 4), ("p5.48xlarge", 1, 32), ("p6-b300.48xlarge", 1, 16)],
)
def test_a_node_has_the_interfaces_of_its_type(instance_type: str, plain_interfaces: int, efa_interfaces: int) -> None:
    kinds = [one["interfaceType"] for one in template(pool(instance_type))["networkInterfaces"]]
    assert (kinds.count("interface"), kinds.count("efa-only")) == (plain_interfaces, efa_interfaces)


def test_every_interface_is_in_the_cluster_s_and_in_the_nodes_security_group(fabric: Deployment) -> None:
    for interface in template(fabric)["networkInterfaces"]:
        assert interface["securityGroups"] == [CLUSTER_GROUP, NODES_GROUP]
    assert "vpcSecurityGroupIds" not in template(fabric), "EC2 rejects security groups on both the instance and its interfaces"


def test_a_node_without_efa_has_the_groups_on_the_instance(plain: Deployment) -> None:
    assert template(plain)["vpcSecurityGroupIds"] == [CLUSTER_GROUP, NODES_GROUP]
    assert "networkInterfaces" not in template(plain)


def test_efa_can_be_disabled_on_a_type_that_has_it() -> None:
    without = pool("p4d.24xlarge", efa=False)
    assert "networkInterfaces" not in template(without)
    assert "vpc.amazonaws.com/efa.present" not in group(without).inputs["labels"]
    assert without.created(engine.PLACEMENT_GROUP) == []


@pytest.mark.parametrize("forbidden", ["subnetId", "associatePublicIpAddress"])
def test_interfaces_set_nothing_that_eks_or_ec2_rejects(fabric: Deployment, forbidden: str) -> None:
    assert not [one for one in template(fabric)["networkInterfaces"] if forbidden in one]


@pytest.mark.parametrize("forbidden", ["iamInstanceProfile", "instanceInitiatedShutdownBehavior", "keyName", "instanceType"])
def test_a_launch_template_sets_nothing_that_eks_rejects(fabric: Deployment, forbidden: str) -> None:
    """https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html"""
    assert forbidden not in template(fabric)


# --- disks, metadata, boot


@pytest.mark.parametrize("name", ["train", "system"])
def test_disks_are_encrypted_and_imds_is_limited_to_the_host(fabric: Deployment, name: str) -> None:
    found = fabric.only(engine.LAUNCH_TEMPLATE, name).inputs
    (disk,) = found["blockDeviceMappings"]
    assert disk["deviceName"] == "/dev/xvda"
    assert (disk["ebs"]["volumeType"], disk["ebs"]["encrypted"], disk["ebs"]["deleteOnTermination"]) == ("gp3", "true", "true")
    assert found["metadataOptions"] == {"httpEndpoint": "enabled", "httpTokens": "required", "httpPutResponseHopLimit": 1}


@pytest.mark.parametrize("name", ["train", "system"])
def test_launched_resources_have_the_pool_s_tags(fabric: Deployment, name: str) -> None:
    specifications = {
        one["resourceType"]: one["tags"] for one in fabric.only(engine.LAUNCH_TEMPLATE, name).inputs["tagSpecifications"]
    }
    assert set(specifications) == {"instance", "volume", "network-interface"}
    for tags in specifications.values():
        assert tags["gpumpi:stack"] == "test" and tags["gpumpi:pool"] == name and tags["cost-center"] == "test"


def test_the_root_volume_has_the_configured_size() -> None:
    assert template(pool(rootVolumeGib=300))["blockDeviceMappings"][0]["ebs"]["volumeSize"] == 300


def test_local_disks_are_striped_if_the_type_has_them(fabric: Deployment) -> None:
    assert boot(fabric)[0]["instance"] == {"localStorage": {"strategy": "RAID0"}}
    assert "instance" not in boot(fabric, "system")[0]


def test_jobs_can_pin_memory_on_gpu_nodes_only(fabric: Deployment) -> None:
    limits = boot(fabric)[0]["containerd"]["baseRuntimeSpec"]["process"]["rlimits"]
    assert "RLIMIT_MEMLOCK" in [limit["type"] for limit in limits]
    assert boot(fabric, "system") == [{}]


def test_huge_pages_are_reserved_on_efa_nodes(fabric: Deployment, plain: Deployment) -> None:
    assert "vm.nr_hugepages = 5128" in boot(fabric)[1]
    assert len(boot(plain)) == 1


# --- images


@pytest.mark.parametrize(
    ("instance_type", "ami_type"), [("g5.8xlarge", "AL2023_x86_64_NVIDIA"), ("g5g.8xlarge", "AL2023_ARM_64_NVIDIA")]
)
def test_a_gpu_pool_uses_the_eks_nvidia_ami_of_its_architecture(instance_type: str, ami_type: str) -> None:
    assert group(pool(instance_type)).inputs["amiType"] == ami_type


@pytest.mark.parametrize(
    ("instance_type", "ami_type"), [("m7i.large", "AL2023_x86_64_STANDARD"), ("m7g.large", "AL2023_ARM_64_STANDARD")]
)
def test_the_system_pool_uses_the_standard_eks_ami_of_its_architecture(instance_type: str, ami_type: str) -> None:
    settings = world.settings(target={"system": {"instanceType": instance_type}})
    system = deploy(settings, world.facts(settings)).only(engine.NODE_GROUP, "system").inputs
    assert system["amiType"] == ami_type and system["instanceTypes"] == [instance_type]


def test_a_custom_ami_gets_cluster_labels_and_taints_in_user_data() -> None:
    own = pool(amiId=world.IMAGE)
    assert template(own)["imageId"] == world.IMAGE
    assert not {"amiType", "version"} & set(group(own).inputs), "EKS rejects amiType and version with a custom AMI"
    config = boot(own)[0]
    assert config["cluster"] == {
        "name": "gpumpi-test",
        "apiServerEndpoint": "https://mock.eks.amazonaws.com",
        "certificateAuthority": "Y2E=",
        "cidr": "172.20.0.0/16",
    }
    assert "gpumpi.io/pool=train" in config["kubelet"]["flags"][0]
    assert config["kubelet"]["flags"][1] == "--register-with-taints=nvidia.com/gpu=true:NoSchedule"


# --- capacity


@pytest.mark.parametrize(("capacity", "kind"), [({"kind": "on-demand"}, "ON_DEMAND"), ({"kind": "spot"}, "SPOT")])
def test_capacity_without_a_reservation_only_sets_its_type(capacity: dict[str, str], kind: str) -> None:
    found = pool("p4d.24xlarge", capacity=capacity)
    assert group(found).inputs["capacityType"] == kind
    assert not {"capacityReservationSpecification", "instanceMarketOptions"} & set(template(found))
    assert not group(found).delete_before_replace


def test_a_targeted_reservation_is_on_demand_capacity_with_a_target() -> None:
    found = pool("p5.48xlarge", capacity={"kind": "targeted-odcr", "reservationId": world.RESERVATION})
    target = {"capacityReservationTarget": {"capacityReservationId": world.RESERVATION}}
    assert template(found)["capacityReservationSpecification"] == target
    assert "instanceMarketOptions" not in template(found), "market options would make it a capacity block"
    assert group(found).inputs["capacityType"] == "ON_DEMAND"
    assert group(found).inputs["instanceTypes"] == ["p5.48xlarge"]


def test_a_resource_group_of_reservations_can_be_the_target() -> None:
    arn = "arn:aws:resource-groups:us-west-2:123456789012:group/gpus"
    found = pool("p5.48xlarge", capacity={"kind": "targeted-odcr", "resourceGroupArn": arn})
    target = {"capacityReservationTarget": {"capacityReservationResourceGroupArn": arn}}
    assert template(found)["capacityReservationSpecification"] == target


def test_a_capacity_block_has_its_type_and_market_in_the_launch_template() -> None:
    found = pool("p5.48xlarge", capacity={"kind": "capacity-block", "reservationId": world.RESERVATION})
    assert template(found)["instanceType"] == "p5.48xlarge" and "instanceTypes" not in group(found).inputs
    assert template(found)["instanceMarketOptions"] == {"marketType": "capacity-block"}
    assert group(found).inputs["capacityType"] == "CAPACITY_BLOCK"


@pytest.mark.parametrize("kind", ["targeted-odcr", "capacity-block"])
def test_reserved_capacity_has_its_zone_no_placement_group_and_delete_before_replace(kind: str) -> None:
    found = pool("p5.48xlarge", capacity={"kind": kind, "reservationId": world.RESERVATION})
    assert found.created(engine.PLACEMENT_GROUP) == [] and "placement" not in template(found)
    assert group(found).inputs["subnetIds"] == ["gpumpi-test-network-private-us-west-2b-subnet-id"]
    assert group(found).delete_before_replace


# --- placement


def test_efa_nodes_are_placed_together_in_one_zone(fabric: Deployment) -> None:
    placement = fabric.only(engine.PLACEMENT_GROUP)
    assert placement.inputs["strategy"] == "cluster"
    assert template(fabric)["placement"] == {"groupName": placement.state["name"]}
    assert len(group(fabric).inputs["subnetIds"]) == 1


def test_the_user_s_placement_group_is_used_and_none_is_created() -> None:
    found = pool(placementGroup="mine")
    assert template(found)["placement"] == {"groupName": "mine"} and found.created(engine.PLACEMENT_GROUP) == []


@pytest.mark.parametrize("more", [{"placementGroup": "none"}, {"maxSize": 1}], ids=str)
def test_a_pool_can_disable_its_placement_group(more: dict[str, Any]) -> None:
    found = pool(**more)
    assert found.created(engine.PLACEMENT_GROUP) == [] and "placement" not in template(found)


# --- labels, taints, tags


def test_gpu_nodes_are_labeled_and_tainted(fabric: Deployment) -> None:
    assert group(fabric).inputs["labels"] == {
        "gpumpi.io/pool": "train",
        "nvidia.com/gpu.present": "true",
        "k8s.amazonaws.com/accelerator": "nvidia-a100",
        "vpc.amazonaws.com/efa.present": "true",
    }
    assert group(fabric).inputs["taints"] == [{"key": "nvidia.com/gpu", "value": "true", "effect": "NO_SCHEDULE"}]


def test_system_nodes_have_no_taints(fabric: Deployment) -> None:
    assert "taints" not in fabric.only(engine.NODE_GROUP, "system").inputs


def test_nodes_have_the_user_s_labels() -> None:
    found = pool(labels={"team": "ml"})
    assert group(found).inputs["labels"]["team"] == "ml"
    assert group_tags(found)[f"{TEMPLATE_TAG}/label/team"] == "ml"


def test_an_autoscaler_can_scale_up_from_zero(fabric: Deployment) -> None:
    expected = {
        f"{AUTOSCALER_TAG}/enabled": "true",
        f"{AUTOSCALER_TAG}/gpumpi-test": "owned",
        f"{TEMPLATE_TAG}/label/gpumpi.io/pool": "train",
        f"{TEMPLATE_TAG}/label/nvidia.com/gpu.present": "true",
        f"{TEMPLATE_TAG}/label/k8s.amazonaws.com/accelerator": "nvidia-a100",
        f"{TEMPLATE_TAG}/label/vpc.amazonaws.com/efa.present": "true",
        f"{TEMPLATE_TAG}/taint/nvidia.com/gpu": "true:NoSchedule",
        f"{TEMPLATE_TAG}/resources/nvidia.com/gpu": "8",
        f"{TEMPLATE_TAG}/resources/vpc.amazonaws.com/efa": "4",
        f"{TEMPLATE_TAG}/resources/hugepages-2Mi": "10256Mi",
        f"{TEMPLATE_TAG}/resources/ephemeral-storage": "6800G",
    }
    on_group = {key: value for key, value in group_tags(fabric).items() if key.startswith("k8s.io/")}
    on_node_group = {key: value for key, value in group(fabric).inputs["tags"].items() if key.startswith("k8s.io/")}
    assert on_group == expected and on_node_group == expected


def test_a_node_without_efa_advertises_none(plain: Deployment) -> None:
    assert not [key for key in group_tags(plain) if "efa" in key or "hugepages" in key]


@pytest.mark.parametrize("name", ["train", "system"])
def test_an_auto_scaling_group_has_the_cost_tags(plain: Deployment, name: str) -> None:
    tags = group_tags(plain, name)
    assert tags["gpumpi:stack"] == "test" and tags["cost-center"] == "test" and tags["gpumpi:pool"] == name


def test_instances_get_the_pool_s_tags_from_the_group_but_not_the_autoscaler_s(fabric: Deployment) -> None:
    tags = [one.inputs["tag"] for one in fabric.created(engine.GROUP_TAG, "-train-tag-")]
    copied = {tag["key"] for tag in tags if tag["propagateAtLaunch"]}
    assert copied == {"Name", "gpumpi:stack", "gpumpi:pool", "cost-center", "managed-by"}


def test_a_changed_tag_creates_no_new_launch_template_version(fabric: Deployment) -> None:
    """A new version would make EKS replace all nodes."""
    assert {one.ignored_changes for one in fabric.created(engine.LAUNCH_TEMPLATE)} == {("tagSpecifications",)}


def test_without_the_autoscaler_there_are_no_autoscaler_tags() -> None:
    found = pool(autoscaler=False)
    assert not [key for key in {**group_tags(found), **group(found).inputs["tags"]} if key.startswith("k8s.io/")]
    assert not found.created(engine.POD_IDENTITY, "autoscaler") and not found.named("gpumpi-test-autoscaler")


# --- sizes


def sized(existing: ExistingPool | None, *, autoscaler: bool = True, **more: Any) -> tuple[dict[str, int], tuple[str, ...]]:
    settings = world.settings(world.pool(**{"maxSize": 4, **more}), platform={"autoscaler": autoscaler})
    before = Existing(pools={"train": existing} if existing else {})
    found = group(deploy(settings, replace(world.facts(settings), existing=before)))
    return found.inputs["scalingConfig"], found.ignored_changes


LEFT_ALONE = ("scalingConfig.desiredSize",)


@pytest.mark.parametrize(
    ("existing", "more", "scaling", "ignored"),
    [
        (None, {"desiredSize": 2}, (0, 2, 4), ()),
        (None, {"minSize": 1}, (1, 1, 4), ()),
        (ExistingPool("us-west-2a", 0, 3, 4), {"desiredSize": 2}, (0, 3, 4), LEFT_ALONE),
        (ExistingPool("us-west-2a", 0, 0, 4), {"minSize": 1}, (1, 1, 4), ()),
        (ExistingPool("us-west-2a", 0, 8, 8), {}, (0, 4, 4), ()),
        (ExistingPool("us-west-2a", 0, 3, 4), {"desiredSize": 2, "autoscaler": False}, (0, 2, 4), ()),
    ],
)
def test_the_autoscaler_owns_the_desired_size_unless_its_bounds_change(
    existing: ExistingPool | None, more: dict[str, Any], scaling: tuple[int, int, int], ignored: tuple[str, ...]
) -> None:
    found, ignored_changes = sized(existing, **more)
    assert (found["minSize"], found["desiredSize"], found["maxSize"]) == scaling and ignored_changes == ignored


# --- updates and repair


def test_an_update_of_gpu_nodes_needs_no_spare_capacity(fabric: Deployment) -> None:
    assert group(fabric).inputs["updateConfig"] == {"maxUnavailable": 1, "updateStrategy": "MINIMAL"}


def test_new_system_nodes_start_before_old_ones_are_removed(fabric: Deployment) -> None:
    assert fabric.only(engine.NODE_GROUP, "system").inputs["updateConfig"]["updateStrategy"] == "DEFAULT"


def repair(of: Deployment, name: str = "train") -> Any:
    return of.only(engine.NODE_GROUP, name).inputs["nodeRepairConfig"]


@pytest.mark.parametrize("name", ["train", "system"])
def test_unhealthy_nodes_are_repaired_one_at_a_time(fabric: Deployment, name: str) -> None:
    found = repair(fabric, name)
    assert (found["enabled"], found["maxParallelNodesRepairedCount"]) == (True, 1)


def overrides(instance_type: str = "g5.8xlarge", platform: dict[str, Any] | None = None, **more: Any) -> list[dict[str, Any]]:
    wanted = {"install": True, **(platform or {})}
    settings = world.settings(world.pool("train", instance_type, **{"maxSize": 4, **more}), platform=wanted)
    plans = eks_pools.plan(settings, world.facts(settings))
    assert plans["system"].spec.repair_overrides == ()
    return [
        {
            "nodeMonitoringCondition": one.condition,
            "nodeUnhealthyReason": one.reason,
            "minRepairWaitTimeMins": one.wait_minutes,
            "repairAction": one.action,
        }
        for one in plans["train"].spec.repair_overrides
    ]


def test_eks_leaves_broken_gpus_to_the_job_controller() -> None:
    assert overrides() == faults.repair_overrides() != []


@pytest.mark.parametrize(
    "more",
    [
        {"minSize": 1},
        {"instance_type": "c7i.4xlarge"},
        *({"platform": {name: False}} for name in ("autoscaler", "nodeHealing", "jobController", "install", "nodeRepair")),
    ],
    ids=str,
)
def test_eks_repairs_broken_gpus_where_nothing_else_removes_the_node(more: dict[str, Any]) -> None:
    assert overrides(**more) == []


def test_without_repair_eks_leaves_all_nodes_alone() -> None:
    off = pool(platform={"nodeRepair": False})
    assert repair(off) == repair(off, "system") == {"enabled": False}


def test_nodes_have_the_version_of_the_control_plane(fabric: Deployment) -> None:
    cluster = fabric.only(engine.CLUSTER)
    assert group(fabric).inputs["version"] == cluster.inputs["version"] == "1.35"
    assert cluster in fabric.waits_for(group(fabric))


def test_a_new_launch_template_version_becomes_the_default_and_rolls_the_nodes(fabric: Deployment) -> None:
    assert template(fabric)["updateDefaultVersion"] is True
    assert group(fabric).inputs["launchTemplate"] == {"id": "gpumpi-test-train-launch-template-id", "version": "1"}


def test_the_system_pool_spans_the_zones(fabric: Deployment) -> None:
    assert len(fabric.only(engine.NODE_GROUP, "system").inputs["subnetIds"]) == 3
