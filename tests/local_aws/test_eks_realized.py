"""The status of EKS resources follows the progress that registered realizers report."""

from collections.abc import Iterator
from typing import Any

import pytest

from localcloud import problems
from localcloud.aws import events
from localcloud.aws.eks.joining import NOT_REGISTERED as NOT_JOINED
from localcloud.aws.eks.node_groups import health
from localcloud.aws.eks.node_groups import updates as node_group_updates
from localcloud.aws.events import DONE, WAIT, Event, Kind, Progress
from testkit.aws_clients import Client
from testkit.eks_world import World, list_health_issues

TWO = {"minSize": 0, "maxSize": 4, "desiredSize": 2}


class Realizer:
    """A realizer that reports progress set by the test."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str]] = []
        self.says: dict[Kind, Progress] = {}

    def receive_event(self, event: Event) -> None:
        self.heard.append((event.kind, event.action))

    def report_progress(self, kind: Kind, name: str, region: str, account: str) -> Progress:
        assert (region, account) == ("us-west-2", "123456789012"), name
        return self.says.get(kind, DONE)


@pytest.fixture
def realizer() -> Iterator[Realizer]:
    recorder = Realizer()
    unregister = events.register_realizer(recorder.receive_event, recorder.report_progress)
    yield recorder
    unregister()


@pytest.fixture
def world(aws: Client) -> World:
    return World(aws)


def read_cluster_status(world: World) -> str:
    return str(world.describe("demo")["status"])


def read_group_status(world: World) -> str:
    return str(world.describe_node_group()["status"])


def test_a_cluster_becomes_active_or_deleted_only_after_the_emulator_has_finished(world: World, realizer: Realizer) -> None:
    realizer.says["cluster"] = WAIT
    assert world.cluster()["status"] == "CREATING"
    assert read_cluster_status(world) == "CREATING"
    realizer.says["cluster"] = DONE
    assert read_cluster_status(world) == "ACTIVE"

    realizer.says["cluster"] = WAIT
    world.eks.delete_cluster(name="demo")
    assert read_cluster_status(world) == "DELETING"
    realizer.says["cluster"] = DONE
    assert world.eks.list_clusters()["clusters"] == []


def test_a_cluster_that_cannot_start_becomes_failed_with_the_reason_and_can_be_deleted(world: World, realizer: Realizer) -> None:
    realizer.says["cluster"] = Progress(True, "etcd exited with code 1")
    record = world.cluster()
    assert record["status"] == "FAILED"
    assert record["health"]["issues"] == [
        {"code": "InternalFailure", "message": "etcd exited with code 1", "resourceIds": ["demo"]}
    ]
    world.eks.delete_cluster(name="demo")
    assert world.eks.list_clusters()["clusters"] == []


def test_the_kubernetes_emulator_receives_an_update_and_completes_it(world: World, realizer: Realizer) -> None:
    world.cluster(version="1.34")
    realizer.heard.clear()
    realizer.says["cluster"] = WAIT
    update = world.eks.update_cluster_version(name="demo", version="1.35")["update"]

    def read_status() -> str:
        return str(world.eks.describe_update(name="demo", updateId=update["id"])["update"]["status"])

    assert realizer.heard == [("cluster", "updating")]
    assert (read_status(), read_cluster_status(world), world.describe("demo")["version"]) == ("InProgress", "UPDATING", "1.34")
    realizer.says["cluster"] = DONE
    assert (read_status(), read_cluster_status(world), world.describe("demo")["version"]) == ("Successful", "ACTIVE", "1.35")

    realizer.says["cluster"] = Progress(True, "the API server did not come back")
    update = world.eks.update_cluster_version(name="demo", version="1.36")["update"]
    assert (read_status(), read_cluster_status(world), world.describe("demo")["version"]) == ("Failed", "ACTIVE", "1.35")


def test_a_node_group_becomes_active_or_deleted_only_after_its_nodes(world: World, realizer: Realizer) -> None:
    world.cluster()
    realizer.says["node-group"] = WAIT
    assert world.node_group()["status"] == "CREATING"
    realizer.says["node-group"] = DONE
    assert read_group_status(world) == "ACTIVE"

    realizer.says["node-group"] = WAIT
    sizes = {"minSize": 0, "maxSize": 4, "desiredSize": 3}
    world.eks.update_nodegroup_config(clusterName="demo", nodegroupName="workers", scalingConfig=sizes)
    assert read_group_status(world) == "UPDATING"
    realizer.says["node-group"] = DONE
    assert read_group_status(world) == "ACTIVE"

    realizer.says["node-group"] = WAIT
    world.eks.delete_nodegroup(clusterName="demo", nodegroupName="workers")
    assert read_group_status(world) == "DELETING"
    realizer.says["node-group"] = DONE
    assert world.eks.list_nodegroups(clusterName="demo")["nodegroups"] == []


def test_a_node_group_becomes_failed_with_the_reason_if_its_nodes_cannot_join(world: World, realizer: Realizer) -> None:
    world.cluster()
    realizer.says["node-group"] = Progress(True, "kubelet exited with code 1")
    group: dict[str, Any] = world.node_group()
    assert group["status"] == "CREATE_FAILED"
    assert [(issue["code"], issue["message"]) for issue in group["health"]["issues"]] == [
        ("NodeCreationFailure", f"{NOT_JOINED}: kubelet exited with code 1")
    ]


def test_a_node_group_becomes_failed_if_fewer_nodes_than_desired_are_ready(world: World, realizer: Realizer) -> None:
    world.cluster()
    realizer.says["node-group"] = Progress(True, ready=1)
    group = world.node_group(scalingConfig=TWO)
    assert (group["status"], list_health_issues(group)) == (
        "CREATE_FAILED",
        [("NodeCreationFailure", f"{NOT_JOINED}: 1 of 2 nodes are Ready")],
    )
    assert set(group["health"]["issues"][0]["resourceIds"]) == world.list_instance_ids()


def test_a_node_group_is_degraded_while_a_node_is_missing_but_not_while_a_node_is_joining(
    world: World, realizer: Realizer
) -> None:
    world.cluster()
    realizer.says["node-group"] = Progress(True, ready=2)
    assert world.node_group(scalingConfig=TWO)["status"] == "ACTIVE"
    realizer.says["node-group"] = Progress(True, "kubelet exited with code 1", ready=1)
    assert (read_group_status(world), list_health_issues(world.describe_node_group())) == (
        "DEGRADED",
        [("NodeCreationFailure", f"{NOT_JOINED}: kubelet exited with code 1")],
    )
    assert world.update_config(labels={"addOrUpdateLabels": {"a": "b"}})["status"] == "Successful"
    assert read_group_status(world) == "DEGRADED", "an update of the labels does not bring the node back"
    realizer.says["node-group"] = WAIT
    assert read_group_status(world) == "ACTIVE"


class Deaf(Realizer):
    """A realizer that fails on events for one kind of resource, and on progress queries for another."""

    def __init__(self, deaf: Kind, dumb: Kind | None = None) -> None:
        super().__init__()
        self._deaf, self._dumb = deaf, dumb

    def receive_event(self, event: Event) -> None:
        if event.kind == self._deaf and event.action != "gone":
            raise RuntimeError("out of ideas")

    def report_progress(self, kind: Kind, name: str, region: str, account: str) -> Progress:
        if kind == self._dumb:
            raise RuntimeError("out of words")
        return Progress(True, ready=0) if kind == "node-group" else DONE


@pytest.fixture
def deaf(request: pytest.FixtureRequest) -> Iterator[None]:
    silent = Deaf(*request.param)
    unregister = events.register_realizer(silent.receive_event, silent.report_progress)
    yield
    unregister()


@pytest.mark.parametrize("deaf", [("cluster",)], indirect=True)
@pytest.mark.usefixtures("deaf")
def test_an_emulator_error_fails_the_cluster_which_can_still_be_deleted(world: World) -> None:
    record = world.cluster()
    assert record["status"] == "FAILED"
    assert record["health"]["issues"][0]["message"] == "the realizer of cluster demo (created) failed: out of ideas"
    assert problems.list_problems()[0] == record["health"]["issues"][0]["message"]
    world.eks.delete_cluster(name="demo")
    assert world.eks.list_clusters()["clusters"] == []


@pytest.mark.parametrize(
    ("deaf", "reason"),
    [
        (("node-group",), "the realizer of node-group demo/workers (created) failed: out of ideas"),
        (("instance",), "the realizer of instance {} (created) failed: out of ideas"),
        (("image", "node-group"), "the realizer of node-group demo/workers failed: out of words"),
    ],
    indirect=["deaf"],
)
@pytest.mark.usefixtures("deaf")
def test_an_emulator_error_fails_the_node_group_which_can_still_be_deleted(world: World, reason: str) -> None:
    world.cluster()
    group = world.node_group()
    [(code, message)] = list_health_issues(group)
    assert (group["status"], code) == ("CREATE_FAILED", "NodeCreationFailure")
    assert message == f"{NOT_JOINED}: {reason.format(*world.list_instance_ids())}"
    world.eks.delete_nodegroup(clusterName="demo", nodegroupName="workers")
    assert world.eks.list_nodegroups(clusterName="demo")["nodegroups"] == []


@pytest.mark.parametrize("deaf", [("add-on",)], indirect=True)
@pytest.mark.usefixtures("deaf")
def test_an_emulator_error_fails_the_add_on(world: World) -> None:
    world.cluster()
    world.eks.create_addon(clusterName="demo", addonName="eks-pod-identity-agent")
    addon = world.eks.describe_addon(clusterName="demo", addonName="eks-pod-identity-agent")["addon"]
    assert (addon["status"], addon["health"]["issues"][0]["message"]) == (
        "CREATE_FAILED",
        "the realizer of add-on demo/eks-pod-identity-agent (created) failed: out of ideas",
    )


def test_an_internal_error_while_completing_a_node_group_fails_only_that_group(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> list[dict[str, Any]]:
        raise KeyError("issues")

    world.cluster()
    monkeypatch.setattr(health, "find_creation_issues", fail)
    world.eks.create_nodegroup(**world.build_node_group_request())
    assert len(world.ec2.describe_vpcs()["Vpcs"]) == 2, "the request that advances time succeeds"
    group = world.describe_node_group()
    assert (group["status"], list_health_issues(group)) == (
        "CREATE_FAILED",
        [("InternalFailure", "eks.CreateNodegroup failed: KeyError('issues')")],
    )


def test_an_internal_error_while_completing_an_update_fails_only_that_update(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise KeyError("template")

    world.cluster()
    world.node_group()
    monkeypatch.setattr(node_group_updates, "_renew_template", fail)
    update = world.update_config(labels={"addOrUpdateLabels": {"a": "b"}})
    assert [error["errorMessage"] for error in update["errors"]] == ["eks.UpdateNodegroupConfig failed: KeyError('template')"]
    assert (update["status"], read_group_status(world)) == ("Failed", "ACTIVE")


class NoMonitoredNodes(Realizer):
    """A realizer that never turns instances with detailed monitoring into nodes."""

    refused: str = ""

    def receive_event(self, event: Event) -> None:
        super().receive_event(event)
        if event.kind == "instance" and event.action == "created" and event.details["Monitoring"]["State"] == "enabled":
            self.refused = event.name
            self.says["node-group"] = Progress(True, f"node {event.name}: kubelet exited with code 1")
        if event.kind == "instance" and event.action == "gone" and event.name == self.refused:
            self.says["node-group"] = DONE


@pytest.mark.parametrize(("strategy", "expected"), [("DEFAULT", 2), ("MINIMAL", 1)])
def test_an_update_with_new_nodes_that_never_join_fails_and_keeps_the_node_count(
    world: World, strategy: str, expected: int
) -> None:
    world.cluster()
    template = world.template(EbsOptimized=True)
    sizes = {"minSize": 0, "maxSize": 2, "desiredSize": 2}
    changing = {"maxUnavailable": 1, "updateStrategy": strategy}
    world.node_group(scalingConfig=sizes, launchTemplate=template, updateConfig=changing)
    before = world.list_instance_ids()
    world.ec2.create_launch_template_version(
        LaunchTemplateId=template["id"], LaunchTemplateData={"Monitoring": {"Enabled": True}}
    )
    realizer = NoMonitoredNodes()
    unregister = events.register_realizer(realizer.receive_event, realizer.report_progress)
    try:
        update = world.update_version(launchTemplate={"id": template["id"], "version": "2"})
        group: dict[str, Any] = world.describe_node_group()
    finally:
        unregister()
    text = "Couldn't proceed with upgrade process as new nodes are not joining node group workers: node "
    assert [(error["errorCode"], error["errorMessage"]) for error in update["errors"]] == [
        ("NodeCreationFailure", f"{text}{realizer.refused}: kubelet exited with code 1")
    ]
    assert (update["status"], group["status"], group["launchTemplate"]["version"]) == ("Failed", "ACTIVE", "1")
    assert group["health"]["issues"] == []
    assert [instance["Monitoring"]["State"] for instance in world.instances(group)] == ["disabled", "disabled"]
    assert len(before & world.list_instance_ids()) == expected
