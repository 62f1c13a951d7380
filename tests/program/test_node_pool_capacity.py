"""Effect of pool settings on node groups: capacity, placement, sizes, updates and repair."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from infra.facts.model import Existing, ExistingPool
from infra.health import faults
from infra.health.faults import RepairOverride
from infra.plan import eks_pools
from tests.program import engine
from tests.program.engine import Deployment, deploy
from tests.program.pool_world import deploy_pool, find_launch_template, find_node_group
from tests.pure import world


@pytest.fixture(scope="module")
def efa_pool() -> Deployment:
    return deploy_pool("p4d.24xlarge")


# --- capacity


@pytest.mark.parametrize(("capacity", "kind"), [({"kind": "on-demand"}, "ON_DEMAND"), ({"kind": "spot"}, "SPOT")])
def test_capacity_without_a_reservation_sets_only_the_capacity_type(capacity: dict[str, str], kind: str) -> None:
    deployment = deploy_pool("p4d.24xlarge", capacity=capacity)
    assert find_node_group(deployment).inputs["capacityType"] == kind
    assert not {"capacityReservationSpecification", "instanceMarketOptions"} & set(find_launch_template(deployment))
    assert not find_node_group(deployment).delete_before_replace


def test_a_targeted_reservation_is_on_demand_capacity_with_a_target() -> None:
    deployment = deploy_pool("p5.48xlarge", capacity={"kind": "targeted-odcr", "reservationId": world.RESERVATION})
    target = {"capacityReservationTarget": {"capacityReservationId": world.RESERVATION}}
    assert find_launch_template(deployment)["capacityReservationSpecification"] == target
    assert "instanceMarketOptions" not in find_launch_template(deployment), "market options would make it a capacity block"
    assert find_node_group(deployment).inputs["capacityType"] == "ON_DEMAND"
    assert find_node_group(deployment).inputs["instanceTypes"] == ["p5.48xlarge"]


def test_a_resource_group_of_reservations_can_be_targeted() -> None:
    arn = "arn:aws:resource-groups:us-west-2:123456789012:group/gpus"
    deployment = deploy_pool("p5.48xlarge", capacity={"kind": "targeted-odcr", "resourceGroupArn": arn})
    target = {"capacityReservationTarget": {"capacityReservationResourceGroupArn": arn}}
    assert find_launch_template(deployment)["capacityReservationSpecification"] == target


def test_a_capacity_block_sets_its_market_type_in_the_launch_template() -> None:
    deployment = deploy_pool("p5.48xlarge", capacity={"kind": "capacity-block", "reservationId": world.RESERVATION})
    assert (
        find_launch_template(deployment)["instanceType"] == "p5.48xlarge"
        and "instanceTypes" not in find_node_group(deployment).inputs
    )
    assert find_launch_template(deployment)["instanceMarketOptions"] == {"marketType": "capacity-block"}
    assert find_node_group(deployment).inputs["capacityType"] == "CAPACITY_BLOCK"


@pytest.mark.parametrize("kind", ["targeted-odcr", "capacity-block"])
def test_reserved_capacity_sets_its_zone_no_placement_group_and_delete_before_replace(kind: str) -> None:
    deployment = deploy_pool("p5.48xlarge", capacity={"kind": kind, "reservationId": world.RESERVATION})
    assert deployment.find_resources(engine.PLACEMENT_GROUP) == [] and "placement" not in find_launch_template(deployment)
    assert find_node_group(deployment).inputs["subnetIds"] == ["gpumpi-test-network-private-us-west-2b-subnet-id"]
    assert find_node_group(deployment).delete_before_replace


# --- placement


def test_efa_nodes_share_a_placement_group_in_one_zone(efa_pool: Deployment) -> None:
    placement = efa_pool.find_resource(engine.PLACEMENT_GROUP)
    assert placement.inputs["strategy"] == "cluster"
    assert find_launch_template(efa_pool)["placement"] == {"groupName": placement.state["name"]}
    assert len(find_node_group(efa_pool).inputs["subnetIds"]) == 1


def test_a_placement_group_of_the_user_is_used_and_none_is_created() -> None:
    deployment = deploy_pool(placementGroup="mine")
    assert (
        find_launch_template(deployment)["placement"] == {"groupName": "mine"}
        and deployment.find_resources(engine.PLACEMENT_GROUP) == []
    )


@pytest.mark.parametrize("more", [{"placementGroup": "none"}, {"maxSize": 1}], ids=str)
def test_a_pool_can_disable_its_placement_group(more: dict[str, Any]) -> None:
    deployment = deploy_pool(**more)
    assert deployment.find_resources(engine.PLACEMENT_GROUP) == [] and "placement" not in find_launch_template(deployment)


# --- sizes


def read_scaling_config(
    existing: ExistingPool | None, *, autoscaler: bool = True, **more: Any
) -> tuple[dict[str, int], tuple[str, ...]]:
    settings = world.settings(world.pool(**{"maxSize": 4, **more}), platform={"autoscaler": autoscaler})
    before = Existing(pools={"train": existing} if existing else {})
    node_group = find_node_group(deploy(settings, replace(world.account_facts(settings), existing=before)))
    return node_group.inputs["scalingConfig"], node_group.ignored_changes


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
def test_the_autoscaler_controls_the_desired_size_unless_the_limits_change(
    existing: ExistingPool | None, more: dict[str, Any], scaling: tuple[int, int, int], ignored: tuple[str, ...]
) -> None:
    config, ignored_changes = read_scaling_config(existing, **more)
    assert (config["minSize"], config["desiredSize"], config["maxSize"]) == scaling and ignored_changes == ignored


# --- updates and repair


def test_updating_gpu_nodes_requires_no_spare_capacity(efa_pool: Deployment) -> None:
    assert find_node_group(efa_pool).inputs["updateConfig"] == {"maxUnavailable": 1, "updateStrategy": "MINIMAL"}


def test_new_system_nodes_start_before_old_ones_are_removed(efa_pool: Deployment) -> None:
    assert efa_pool.find_resource(engine.NODE_GROUP, "system").inputs["updateConfig"]["updateStrategy"] == "DEFAULT"


def read_node_repair_config(of: Deployment, name: str = "train") -> Any:
    return of.find_resource(engine.NODE_GROUP, name).inputs["nodeRepairConfig"]


@pytest.mark.parametrize("name", ["train", "system"])
def test_unhealthy_nodes_are_repaired_one_at_a_time(efa_pool: Deployment, name: str) -> None:
    config = read_node_repair_config(efa_pool, name)
    assert (config["enabled"], config["maxParallelNodesRepairedCount"]) == (True, 1)


def plan_repair_overrides(
    instance_type: str = "g5.8xlarge", platform: dict[str, Any] | None = None, **more: Any
) -> Sequence[RepairOverride]:
    section = {"install": True, **(platform or {})}
    settings = world.settings(world.pool("train", instance_type, **{"maxSize": 4, **more}), platform=section)
    plans = eks_pools.plan_pools(settings, world.account_facts(settings))
    assert plans["system"].spec.repair_overrides == ()
    return plans["train"].spec.repair_overrides


def test_eks_leaves_broken_gpus_to_the_job_controller() -> None:
    assert plan_repair_overrides() == faults.list_repair_overrides() != ()


@pytest.mark.parametrize(
    "more",
    [
        {"minSize": 1},
        {"instance_type": "c7i.4xlarge"},
        *({"platform": {name: False}} for name in ("autoscaler", "nodeHealing", "install", "nodeRepair")),
    ],
    ids=str,
)
def test_eks_repairs_broken_gpus_if_no_job_controller_does(more: dict[str, Any]) -> None:
    assert plan_repair_overrides(**more) == ()


def test_eks_repairs_no_nodes_if_repair_is_disabled() -> None:
    off = deploy_pool(platform={"nodeRepair": False})
    assert read_node_repair_config(off) == read_node_repair_config(off, "system") == {"enabled": False}


def test_nodes_have_the_kubernetes_version_of_the_control_plane(efa_pool: Deployment) -> None:
    cluster = efa_pool.find_resource(engine.CLUSTER)
    assert find_node_group(efa_pool).inputs["version"] == cluster.inputs["version"] == "1.35"
    assert cluster in efa_pool.list_dependencies(find_node_group(efa_pool))


def test_a_new_launch_template_version_becomes_the_default_and_replaces_the_nodes(efa_pool: Deployment) -> None:
    assert find_launch_template(efa_pool)["updateDefaultVersion"] is True
    assert find_node_group(efa_pool).inputs["launchTemplate"] == {"id": "gpumpi-test-train-launch-template-id", "version": "1"}


def test_the_system_pool_spans_all_zones(efa_pool: Deployment) -> None:
    assert len(efa_pool.find_resource(engine.NODE_GROUP, "system").inputs["subnetIds"]) == 3
