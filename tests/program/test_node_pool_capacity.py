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
from tests.program.pool_world import group, pool, template
from tests.pure import world


@pytest.fixture(scope="module")
def fabric() -> Deployment:
    return pool("p4d.24xlarge")


# --- capacity


@pytest.mark.parametrize(("capacity", "kind"), [({"kind": "on-demand"}, "ON_DEMAND"), ({"kind": "spot"}, "SPOT")])
def test_capacity_without_a_reservation_only_sets_its_type(capacity: dict[str, str], kind: str) -> None:
    deployment = pool("p4d.24xlarge", capacity=capacity)
    assert group(deployment).inputs["capacityType"] == kind
    assert not {"capacityReservationSpecification", "instanceMarketOptions"} & set(template(deployment))
    assert not group(deployment).delete_before_replace


def test_a_targeted_reservation_is_on_demand_capacity_with_a_target() -> None:
    deployment = pool("p5.48xlarge", capacity={"kind": "targeted-odcr", "reservationId": world.RESERVATION})
    target = {"capacityReservationTarget": {"capacityReservationId": world.RESERVATION}}
    assert template(deployment)["capacityReservationSpecification"] == target
    assert "instanceMarketOptions" not in template(deployment), "market options would make it a capacity block"
    assert group(deployment).inputs["capacityType"] == "ON_DEMAND"
    assert group(deployment).inputs["instanceTypes"] == ["p5.48xlarge"]


def test_a_resource_group_of_reservations_can_be_the_target() -> None:
    arn = "arn:aws:resource-groups:us-west-2:123456789012:group/gpus"
    deployment = pool("p5.48xlarge", capacity={"kind": "targeted-odcr", "resourceGroupArn": arn})
    target = {"capacityReservationTarget": {"capacityReservationResourceGroupArn": arn}}
    assert template(deployment)["capacityReservationSpecification"] == target


def test_a_capacity_block_has_its_type_and_market_in_the_launch_template() -> None:
    deployment = pool("p5.48xlarge", capacity={"kind": "capacity-block", "reservationId": world.RESERVATION})
    assert template(deployment)["instanceType"] == "p5.48xlarge" and "instanceTypes" not in group(deployment).inputs
    assert template(deployment)["instanceMarketOptions"] == {"marketType": "capacity-block"}
    assert group(deployment).inputs["capacityType"] == "CAPACITY_BLOCK"


@pytest.mark.parametrize("kind", ["targeted-odcr", "capacity-block"])
def test_reserved_capacity_has_its_zone_no_placement_group_and_delete_before_replace(kind: str) -> None:
    deployment = pool("p5.48xlarge", capacity={"kind": kind, "reservationId": world.RESERVATION})
    assert deployment.created(engine.PLACEMENT_GROUP) == [] and "placement" not in template(deployment)
    assert group(deployment).inputs["subnetIds"] == ["gpumpi-test-network-private-us-west-2b-subnet-id"]
    assert group(deployment).delete_before_replace


# --- placement


def test_efa_nodes_are_placed_together_in_one_zone(fabric: Deployment) -> None:
    placement = fabric.only(engine.PLACEMENT_GROUP)
    assert placement.inputs["strategy"] == "cluster"
    assert template(fabric)["placement"] == {"groupName": placement.state["name"]}
    assert len(group(fabric).inputs["subnetIds"]) == 1


def test_the_user_s_placement_group_is_used_and_none_is_created() -> None:
    deployment = pool(placementGroup="mine")
    assert template(deployment)["placement"] == {"groupName": "mine"} and deployment.created(engine.PLACEMENT_GROUP) == []


@pytest.mark.parametrize("more", [{"placementGroup": "none"}, {"maxSize": 1}], ids=str)
def test_a_pool_can_disable_its_placement_group(more: dict[str, Any]) -> None:
    deployment = pool(**more)
    assert deployment.created(engine.PLACEMENT_GROUP) == [] and "placement" not in template(deployment)


# --- sizes


def sized(existing: ExistingPool | None, *, autoscaler: bool = True, **more: Any) -> tuple[dict[str, int], tuple[str, ...]]:
    settings = world.settings(world.pool(**{"maxSize": 4, **more}), platform={"autoscaler": autoscaler})
    before = Existing(pools={"train": existing} if existing else {})
    node_group = group(deploy(settings, replace(world.facts(settings), existing=before)))
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
def test_the_autoscaler_owns_the_desired_size_unless_its_bounds_change(
    existing: ExistingPool | None, more: dict[str, Any], scaling: tuple[int, int, int], ignored: tuple[str, ...]
) -> None:
    config, ignored_changes = sized(existing, **more)
    assert (config["minSize"], config["desiredSize"], config["maxSize"]) == scaling and ignored_changes == ignored


# --- updates and repair


def test_an_update_of_gpu_nodes_needs_no_spare_capacity(fabric: Deployment) -> None:
    assert group(fabric).inputs["updateConfig"] == {"maxUnavailable": 1, "updateStrategy": "MINIMAL"}


def test_new_system_nodes_start_before_old_ones_are_removed(fabric: Deployment) -> None:
    assert fabric.only(engine.NODE_GROUP, "system").inputs["updateConfig"]["updateStrategy"] == "DEFAULT"


def repair(of: Deployment, name: str = "train") -> Any:
    return of.only(engine.NODE_GROUP, name).inputs["nodeRepairConfig"]


@pytest.mark.parametrize("name", ["train", "system"])
def test_unhealthy_nodes_are_repaired_one_at_a_time(fabric: Deployment, name: str) -> None:
    config = repair(fabric, name)
    assert (config["enabled"], config["maxParallelNodesRepairedCount"]) == (True, 1)


def overrides(instance_type: str = "g5.8xlarge", platform: dict[str, Any] | None = None, **more: Any) -> Sequence[RepairOverride]:
    section = {"install": True, **(platform or {})}
    settings = world.settings(world.pool("train", instance_type, **{"maxSize": 4, **more}), platform=section)
    plans = eks_pools.plan(settings, world.facts(settings))
    assert plans["system"].spec.repair_overrides == ()
    return plans["train"].spec.repair_overrides


def test_eks_leaves_broken_gpus_to_the_job_controller() -> None:
    assert overrides() == faults.list_repair_overrides() != ()


@pytest.mark.parametrize(
    "more",
    [
        {"minSize": 1},
        {"instance_type": "c7i.4xlarge"},
        *({"platform": {name: False}} for name in ("autoscaler", "nodeHealing", "install", "nodeRepair")),
    ],
    ids=str,
)
def test_eks_repairs_broken_gpus_where_nothing_else_removes_the_node(more: dict[str, Any]) -> None:
    assert overrides(**more) == ()


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
