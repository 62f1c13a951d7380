"""The platform's Cluster Autoscaler."""

import pytest

from infra.facts import manifests
from infra.facts.gather import list_stack_manifests
from infra.facts.model import Existing
from infra.versions import LIVE_KUBERNETES_VERSIONS, choose_autoscaler_version
from localcloud import mirror
from tests.program.engine import Deployment, deploy
from tests.program.platform_world import PUBLIC, deploy_default_platform, deploy_platform, find_object, make_settings
from tests.pure.world import account_facts, pool, settings


@pytest.fixture
def stack() -> Deployment:
    return deploy_default_platform()


def test_the_autoscaler_discovers_groups_by_their_tags(stack: Deployment) -> None:
    (container,) = find_object(stack, "Deployment", "cluster-autoscaler")["spec"]["template"]["spec"]["containers"]
    (flag,) = [argument for argument in container["command"] if argument.startswith("--node-group-auto-discovery=")]
    tags = flag.removeprefix("--node-group-auto-discovery=asg:tag=").split(",")
    for group in stack.find_resources("aws:eks/nodeGroup:NodeGroup"):
        assert set(tags) <= set(group.inputs["tags"]), group.name
    assert (
        container["image"].endswith(f":{choose_autoscaler_version('1.35')}")
        and {"name": "AWS_REGION", "value": "us-west-2"} in container["env"]
    )


def test_the_autoscaler_knows_every_ec2_instance_type(stack: Deployment) -> None:
    """The autoscaler's compiled-in list lacks P5e, P6 and G7, so their pools would never scale up from zero."""
    (container,) = find_object(stack, "Deployment", "cluster-autoscaler")["spec"]["template"]["spec"]["containers"]
    assert "--aws-use-static-instance-list=false" in container["command"]


def test_the_autoscaler_role_is_associated_with_its_service_account(stack: Deployment) -> None:
    association = stack.find_resource("aws:eks/podIdentityAssociation:PodIdentityAssociation", "autoscaler").inputs
    account = find_object(stack, "ServiceAccount", "cluster-autoscaler")["metadata"]
    assert (association["namespace"], association["serviceAccount"]) == (account["namespace"], account["name"])


def test_idle_nodes_are_kept_for_the_configured_time() -> None:
    (container,) = find_object(deploy_platform(make_settings(idleMinutes=3)), "Deployment", "cluster-autoscaler")["spec"][
        "template"
    ]["spec"]["containers"]
    assert {"--scale-down-unneeded-time=3m", "--scale-down-delay-after-add=3m"} <= set(container["command"])


@pytest.mark.parametrize("version", LIVE_KUBERNETES_VERSIONS)
def test_the_autoscaler_has_the_same_minor_version_as_the_cluster(version: str) -> None:
    eks_settings = settings(pool(), target={**PUBLIC, "kubernetesVersion": version}, platform={"install": True, "queue": False})
    upstream = manifests.load_manifests(list_stack_manifests(eks_settings), str(mirror.ensure_mirror(print)))
    stack = deploy(eks_settings, account_facts(eks_settings, manifests=upstream, existing=Existing(version)))
    (container,) = find_object(stack, "Deployment", "cluster-autoscaler")["spec"]["template"]["spec"]["containers"]
    assert f":v{version}." in container["image"]
