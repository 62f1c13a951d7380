"""Phases of a managed node group update, as seen by a realizer: surge, cordon, drain, replace, scale down.

https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html
"""

from collections.abc import Iterator
from typing import Any

import pytest

from localcloud.aws import durations, events, faults
from localcloud.aws.events import DONE, WAIT, Event, Kind, Progress
from localcloud.kubernetes.nodes import drain
from testkit.aws_clients import Client
from testkit.eks_world import World


class Nodes:
    """A realizer that records node events. The test controls which drains complete."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str]] = []
        self.forced: set[bool] = set()
        self.drains: dict[str, Progress] = {}
        self.drain = DONE
        """Progress of the drains that are not in `drains`."""
        self.most = self.present = 0

    def receive_event(self, event: Event) -> None:
        if event.kind != "instance":
            return
        self.heard.append((event.action, event.name))
        self.present += {"created": 1, "gone": -1}.get(event.action, 0)
        self.most = max(self.most, self.present)
        if event.action == "draining":
            self.forced.add(event.details["Force"])

    def report_progress(self, kind: Kind, name: str, region: str, account: str) -> Progress:
        return self.drains.get(name, self.drain) if kind == "instance" and ("draining", name) in self.heard else DONE

    def list_instance_ids(self, action: str) -> list[str]:
        return [name for event_action, name in self.heard if event_action == action]


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    recorder = Nodes()
    unregister = events.register_realizer(recorder.receive_event, recorder.report_progress)
    yield recorder
    unregister()


@pytest.fixture
def world(aws: Client) -> World:
    world = World(aws)
    world.cluster()
    return world


def make_group(world: World, size: int, zones: int = 1, **config: Any) -> set[str]:
    """Create a node group and a second version of its launch template. Return the node group's instance IDs."""
    sizes = {"minSize": 0, "maxSize": size, "desiredSize": size}
    template = world.template(EbsOptimized=True)
    world.node_group(
        launchTemplate=template,
        scalingConfig=sizes,
        subnets=world.subnets[:zones],
        **({"updateConfig": config} if config else {}),
    )
    world.ec2.create_launch_template_version(
        LaunchTemplateId=template["id"], LaunchTemplateData={"Monitoring": {"Enabled": True}}
    )
    return world.list_instance_ids()


def update_group(world: World, **more: Any) -> dict[str, Any]:
    template = world.describe_node_group()["launchTemplate"]
    return dict(world.update_version(launchTemplate={"id": template["id"], "version": "2"}, **more))


@pytest.mark.parametrize(("zones", "config", "surge"), [(1, {}, 2), (2, {}, 4), (1, {"maxUnavailable": 3}, 3)])
def test_the_default_update_strategy_adds_two_nodes_per_zone_or_max_unavailable(
    world: World, nodes: Nodes, zones: int, config: dict[str, int], surge: int
) -> None:
    before = make_group(world, 2, zones, **config)
    assert update_group(world)["status"] == "Successful"
    assert nodes.most == 2 + surge
    assert len(world.list_instance_ids()) == 2 and not before & world.list_instance_ids()
    group = world.auto_scaling_group()
    assert (group["MaxSize"], group["DesiredCapacity"]) == (2, 2)


def test_the_minimal_update_strategy_never_exceeds_the_size_of_the_group(world: World, nodes: Nodes) -> None:
    before = make_group(world, 3, maxUnavailable=2, updateStrategy="MINIMAL")
    assert update_group(world)["status"] == "Successful"
    assert nodes.most == 3
    assert len(world.list_instance_ids()) == 3 and not before & world.list_instance_ids()
    assert nodes.list_instance_ids("cordoning") == []


def test_old_nodes_are_cordoned_after_the_surge_and_drained_before_termination(world: World, nodes: Nodes) -> None:
    before = make_group(world, 2)
    update_group(world)
    order = [action for action, name in nodes.heard if action != "changed"][len(before) :]
    assert order[:2] == ["created", "created"]
    assert order[2:4] == ["cordoning", "cordoning"] and set(nodes.list_instance_ids("cordoning")) == before
    assert set(nodes.list_instance_ids("draining")) == before
    for name in before:
        assert nodes.heard.index(("draining", name)) < nodes.heard.index(("gone", name))
    assert nodes.forced == {False}


def test_a_node_is_not_terminated_until_its_drain_ends(world: World, nodes: Nodes) -> None:
    before = make_group(world, 2)
    nodes.drain = WAIT
    assert update_group(world)["status"] == "InProgress"
    assert world.describe_node_group()["status"] == "UPDATING"
    [first] = nodes.list_instance_ids("draining")
    assert before <= world.list_instance_ids(), "maxUnavailable is 1, and the first drain has not ended"
    nodes.drains[first] = DONE
    assert before - world.list_instance_ids() == {first}
    nodes.drain = DONE
    assert not before & world.list_instance_ids()


def test_pods_that_cannot_be_evicted_fail_the_update_and_their_node_is_kept(world: World, nodes: Nodes) -> None:
    before = make_group(world, 2)
    nodes.drain = Progress(True, "default/guarded")
    done = update_group(world)
    [stuck] = nodes.list_instance_ids("draining")
    name = world.ec2.describe_instances(InstanceIds=[stuck])["Reservations"][0]["Instances"][0]["PrivateDnsName"]
    text = "Reached max retries while trying to evict pods from nodes in node group workers"
    assert (done["status"], done["errors"]) == (
        "Failed",
        [{"errorCode": "PodEvictionFailure", "errorMessage": text, "resourceIds": [name]}],
    )
    group = world.describe_node_group()
    assert (group["status"], group["launchTemplate"]["version"]) == ("ACTIVE", "1")
    assert world.list_instance_ids() == before
    assert set(nodes.list_instance_ids("uncordoning")) == before
    scaling = world.auto_scaling_group()
    assert (scaling["MaxSize"], scaling["DesiredCapacity"]) == (2, 2)


def test_the_next_update_does_not_replace_nodes_already_replaced_by_a_failed_update(world: World, nodes: Nodes) -> None:
    before = make_group(world, 2)
    nodes.drain = WAIT
    update_group(world)
    [first] = nodes.list_instance_ids("draining")
    nodes.drains[first], nodes.drain = DONE, Progress(True, "default/guarded")
    after = world.list_instance_ids()
    [renewed] = after - before
    assert len(after) == 2 and first not in after
    assert world.describe_node_group()["launchTemplate"]["version"] == "1"
    nodes.drain = DONE
    assert update_group(world, force=True)["status"] == "Successful"
    assert nodes.forced == {False, True}
    assert world.describe_node_group()["launchTemplate"]["version"] == "2"
    assert not before & world.list_instance_ids()
    assert renewed not in nodes.list_instance_ids("draining")


def test_an_update_requires_a_new_node_in_every_zone(world: World, nodes: Nodes) -> None:
    """The EKS user guide says: "At least one new node is launched in every Availability Zone where the node exists"."""
    before = make_group(world, 2, zones=2)
    subnet = world.subnets[1]
    faults.add_fault(faults.Fault("ec2", "RunInstances", "InsufficientInstanceCapacity", match={"SubnetId": subnet}, times=9))
    done = update_group(world)
    assert [error["errorCode"] for error in done["errors"]] == ["NodeCreationFailure"]
    assert world.list_instance_ids() == before


@pytest.mark.parametrize("strategy", ["DEFAULT", "MINIMAL"])
def test_the_autoscaler_can_scale_up_the_group_during_an_update(world: World, nodes: Nodes, strategy: str) -> None:
    make_group(world, 2, maxUnavailable=1, updateStrategy=strategy)
    nodes.drain = WAIT
    update_group(world)
    name = world.auto_scaling_group()["AutoScalingGroupName"]
    world.autoscaling.update_auto_scaling_group(AutoScalingGroupName=name, MaxSize=9, DesiredCapacity=6)
    nodes.drain = DONE
    assert len(world.list_instance_ids()) == 6, "EKS skips the scale-down phase"


def test_the_eviction_timeout_follows_the_delay_factor_but_is_at_least_two_minutes(aws: Client) -> None:
    assert drain.get_drain_timeout() == 120
    durations.set_factor(1)
    assert drain.get_drain_timeout() == 15 * 60
