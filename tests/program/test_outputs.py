"""Outputs of a stack."""

import asyncio
import json
from types import SimpleNamespace
from typing import cast

import pulumi
import pytest

from infra.components.eks_cluster import EksCluster
from infra.kubernetes.reachability import ApiServer
from infra.outputs import build_eks_kubeconfig
from tests.program.engine import Deployment, deploy
from tests.pure import world


@pytest.fixture(scope="module")
def deployment() -> Deployment:
    settings = world.settings(world.pool("train", "p4d.24xlarge", 4, desiredSize=2), world.pool("test", "g5.xlarge"))
    return deploy(settings, world.account_facts(settings))


def test_the_stack_has_exactly_the_expected_outputs(deployment: Deployment) -> None:
    assert set(deployment.outputs) == {
        "accessPointIds",
        "clusterEndpoint",
        "clusterSecurityGroupId",
        "clusterName",
        "connect",
        "fileSystemId",
        "keyBucket",
        "kubeconfig",
        "nodeSecurityGroupId",
        "platform",
        "pools",
        "privateSubnetIds",
        "publicSubnetIds",
        "systemPool",
        "vpcId",
    }


def test_the_image_repository_is_an_output_if_configured() -> None:
    settings = world.settings(world.pool(), platform={"imageRepositories": True})
    assert deploy(settings, world.account_facts(settings)).outputs["imageRepository"] == (
        "123456789012.dkr.ecr.us-west-2.amazonaws.com/gpumpi-test"
    )


def test_the_kubeconfig_is_the_only_secret_output(deployment: Deployment) -> None:
    assert deployment.secret_outputs == {"kubeconfig"}


def test_the_kubeconfig_gets_its_token_from_the_aws_cli(deployment: Deployment) -> None:
    config = json.loads(deployment.outputs["kubeconfig"])
    assert config["clusters"][0]["cluster"] == {
        "server": "https://mock.eks.amazonaws.com",
        "certificate-authority-data": "Y2E=",
    }
    command = config["users"][0]["user"]["exec"]
    assert command["command"] == "aws"
    assert command["args"][:6] == ["eks", "get-token", "--cluster-name", "gpumpi-test", "--region", "us-west-2"]
    assert config["current-context"] == config["contexts"][0]["name"]


def test_a_pool_output_lists_the_resources_that_a_job_can_request(deployment: Deployment) -> None:
    assert deployment.outputs["pools"][0] == {
        "name": "train",
        "nodeGroup": "gpumpi-test-train",
        "instanceType": "p4d.24xlarge",
        "capacity": "ON_DEMAND",
        "gpus": 8,
        "slots": 8,
        "efa": 4,
        "zones": ["us-west-2a"],
        "minSize": 0,
        "desiredSize": 2,
        "maxSize": 4,
    }


def test_pool_outputs_have_the_order_of_the_stack_file(deployment: Deployment) -> None:
    assert [pool["name"] for pool in deployment.outputs["pools"]] == ["train", "test"]
    assert deployment.outputs["systemPool"]["name"] == "system"


def test_the_connect_commands_contain_cluster_stack_and_region(deployment: Deployment) -> None:
    connect = deployment.outputs["connect"]
    assert connect["kubectl"] == "aws eks update-kubeconfig --region us-west-2 --name gpumpi-test"
    assert "--stack test" in connect["kubeconfig"] and "ssm start-session" in connect["nodeShell"]


def test_a_stack_without_a_file_system_has_no_file_system_outputs() -> None:
    settings = world.settings(world.pool(), storage={"efs": "none"})
    assert not {"fileSystemId", "accessPointIds"} & set(deploy(settings, world.account_facts(settings)).outputs)


def test_the_api_server_is_checked_only_after_access_has_been_granted() -> None:
    checked: list[ApiServer] = []

    async def run() -> None:
        granted: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        plane = SimpleNamespace(
            endpoint=pulumi.Output.from_input("https://api"),
            certificate_authority=pulumi.Output.from_input("Y2E="),
            access=[SimpleNamespace(id=pulumi.Output.from_input(granted))],
        )
        config = build_eks_kubeconfig(cast(EksCluster, plane), name="demo", region="us-west-2", check=checked.append)
        for _ in range(50):
            await asyncio.sleep(0)  # let all pending tasks run
        assert checked == []
        granted.set_result("demo:admin")
        await config.future()

    # asyncio.run would remove the main thread's event loop, which Pulumi's mocks need in the tests after this one
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        runner.run(run())
    assert checked == [ApiServer("demo", "us-west-2", "https://api", "Y2E=")]
