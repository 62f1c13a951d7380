"""An instance that cannot join makes its node group fail, whether nodes are real, simulated or only API records."""

import base64
import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from localcloud.aws import events, images
from localcloud.aws.account import ACCOUNT
from localcloud.aws.eks.joining import NOT_REGISTERED as NOT_JOINED
from localcloud.kubernetes.nodes import machine
from localcloud.kubernetes.nodes.fleet import Fleet
from localcloud.kubernetes.nodes.simulated import KWOK, Simulator
from localcloud.kubernetes.running import RunningCluster
from localcloud.machine.supervisor import Crash
from localcloud.processes import StartError
from testkit.aws_clients import REGION, Client
from testkit.eks_world import CLUSTER_DETAILS, World, find_eks_ami, list_health_issues
from testkit.waiting import wait_while

AMAZON_LINUX = images.list_ssm_parameters(REGION)["/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64"]
BOOTSTRAP = "#!/bin/bash\n/etc/eks/bootstrap.sh demo\n"


@pytest.fixture
def world(aws: Client) -> World:
    world = World(aws)
    world.cluster()
    return world


@pytest.fixture
def crashes() -> list[Crash]:
    return []


@pytest.fixture
def fleet(world: World, crashes: list[Crash], monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    """The component of a local cluster that turns instances into nodes, without the other components and with simulated
    nodes.
    """
    monkeypatch.setattr(Simulator, "create", lambda *_: None)
    supervisor = SimpleNamespace(list_crashes=lambda: crashes)
    api = SimpleNamespace(find=lambda path: None, delete=lambda path: None)
    where = {"id": "1-demo", "name": "demo", "account": ACCOUNT, "region": REGION, "namespace": None, "addresses": None}
    cluster = SimpleNamespace(**where, supervisor=supervisor, api=api, publish=lambda: None)
    simulated = Fleet(cast(RunningCluster, cluster))
    unregister = events.register_realizer(simulated.on_event, lambda kind, name, *_: simulated.progress(kind, name))
    yield simulated
    unregister()
    simulated.stop()


def create_group(world: World, **settings: Any) -> dict[str, Any]:
    world.eks.create_nodegroup(**world.build_node_group_request(**settings))
    return wait_while(world.describe_node_group, lambda group: group["status"] == "CREATING")


def encode_base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def build_node_config(**changes: Any) -> str:
    cluster = {name: value for name, value in {**CLUSTER_DETAILS, **changes}.items() if value}
    return encode_base64(json.dumps({"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": {"cluster": cluster}}))


NOT_JOINING = [
    (None, "its user data has no NodeConfig for cluster demo"),
    (build_node_config(name="other"), "its user data is for cluster other, not demo"),
    (build_node_config(cidr=""), "the NodeConfig in its user data lacks spec.cluster.cidr"),
    (encode_base64(BOOTSTRAP), "its user data runs /etc/eks/bootstrap.sh, which AL2023 AMIs do not have. Use a NodeConfig"),
    (encode_base64("#!/bin/bash\nnodeadm init\n"), "its user data has no NodeConfig for cluster demo"),
    (encode_base64("- spec"), "its user data cannot be read: its NodeConfig is not a YAML object"),
]


@pytest.mark.parametrize("realized", [False, True], ids=["recorded", "realized"])
@pytest.mark.parametrize(("user_data", "reason"), NOT_JOINING)
def test_a_node_with_a_custom_ami_and_unsuitable_user_data_does_not_join(
    world: World, request: pytest.FixtureRequest, realized: bool, user_data: str | None, reason: str
) -> None:
    if realized:
        request.getfixturevalue("fleet")
    data = {"ImageId": find_eks_ami(), **({"UserData": user_data} if user_data else {})}
    group = create_group(world, launchTemplate=world.template(**data))
    [instance_id] = world.list_instance_ids()
    assert (group["status"], list_health_issues(group)) == (
        "CREATE_FAILED",
        [("NodeCreationFailure", f"{NOT_JOINED}: {instance_id}: {reason}")],
    )
    assert group["health"]["issues"][0]["resourceIds"] == [instance_id]


@pytest.mark.parametrize("realized", [False, True], ids=["recorded", "realized"])
def test_an_update_to_unsuitable_user_data_fails_and_keeps_the_nodes(
    world: World, request: pytest.FixtureRequest, realized: bool
) -> None:
    if realized:
        request.getfixturevalue("fleet")
    template = world.template(ImageId=find_eks_ami(), UserData=build_node_config())
    assert create_group(world, launchTemplate=template)["status"] == "ACTIVE"
    data = {"ImageId": find_eks_ami(), "UserData": build_node_config(name="other")}
    world.ec2.create_launch_template_version(LaunchTemplateId=template["id"], LaunchTemplateData=data)
    started_update = world.eks.update_nodegroup_version(
        clusterName="demo", nodegroupName="workers", launchTemplate={"id": template["id"], "version": "2"}
    )["update"]
    update = wait_while(
        lambda: world.eks.describe_update(name="demo", nodegroupName="workers", updateId=started_update["id"])["update"],
        lambda update: update["status"] == "InProgress",
    )
    [error] = update["errors"]
    assert (update["status"], error["errorCode"]) == ("Failed", "NodeCreationFailure")
    assert "its user data is for cluster other, not demo" in error["errorMessage"]
    group = wait_while(world.describe_node_group, lambda group: group["status"] != "ACTIVE")
    assert (group["launchTemplate"]["version"], len(world.list_instance_ids())) == ("1", 1)


def test_a_node_with_an_ami_without_nodeadm_does_not_join(world: World) -> None:
    group = create_group(world, launchTemplate=world.template(ImageId=AMAZON_LINUX, UserData=build_node_config()))
    [(_, message)] = list_health_issues(group)
    assert group["status"] == "CREATE_FAILED"
    assert message.endswith("-x86_64 has no nodeadm. Use an EKS AMI, or an AMI built from one")


@pytest.mark.usefixtures("fleet")
def test_a_node_group_is_active_when_all_its_nodes_are_ready(world: World) -> None:
    template = world.template(ImageId=find_eks_ami(), UserData=build_node_config())
    group = create_group(world, launchTemplate=template, scalingConfig={"minSize": 0, "maxSize": 4, "desiredSize": 3})
    assert (group["status"], list_health_issues(group)) == ("ACTIVE", [])


@pytest.mark.usefixtures("fleet")
def test_an_instance_that_causes_an_internal_error_does_not_join_the_cluster(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise KeyError("VCpuInfo")

    monkeypatch.setattr(machine, "parse_instance", fail)
    group = create_group(world)
    [instance_id] = world.list_instance_ids()
    assert (group["status"], list_health_issues(group)) == (
        "CREATE_FAILED",
        [
            (
                "NodeCreationFailure",
                f"{NOT_JOINED}: instance {instance_id}: reading instance {instance_id} failed: KeyError('VCpuInfo')",
            )
        ],
    )
    world.eks.delete_nodegroup(clusterName="demo", nodegroupName="workers")
    assert world.eks.list_nodegroups(clusterName="demo")["nodegroups"] == []


@pytest.mark.usefixtures("fleet")
def test_a_simulated_node_that_does_not_start_is_reported_as_not_joined(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise StartError("kwok did not start")

    monkeypatch.setattr(Simulator, "create", fail)
    group = create_group(world)
    [(code, message)] = list_health_issues(group)
    assert (group["status"], code) == ("CREATE_FAILED", "NodeCreationFailure")
    assert message.endswith("kwok did not start")


@pytest.mark.usefixtures("fleet")
def test_simulated_nodes_are_lost_if_the_process_that_keeps_them_ready_crashes(world: World, crashes: list[Crash]) -> None:
    assert create_group(world)["status"] == "ACTIVE"
    crashes.append(Crash(KWOK, 1, "/log", "its last words"))
    group = world.describe_node_group()
    [(_, message)] = list_health_issues(group)
    assert (group["status"], message) == (
        "DEGRADED",
        f"{NOT_JOINED}: kwok exited with code 1; the end of /log:\nits last words",
    )
