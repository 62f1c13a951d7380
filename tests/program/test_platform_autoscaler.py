"""The platform's Cluster Autoscaler."""

import pytest

from infra.facts import manifests
from infra.facts.gather import stack_manifests
from infra.facts.model import Existing
from infra.versions import LIVE_KUBERNETES_VERSIONS, cluster_autoscaler
from localcloud import mirror
from tests.program.engine import Deployment, deploy
from tests.program.platform_world import PUBLIC, asked, deployed, only, usual
from tests.pure.world import facts, pool, settings


@pytest.fixture
def stack() -> Deployment:
    return usual()


def test_the_autoscaler_discovers_groups_by_their_tags(stack: Deployment) -> None:
    (container,) = only(stack, "Deployment", "cluster-autoscaler")["spec"]["template"]["spec"]["containers"]
    (flag,) = [argument for argument in container["command"] if argument.startswith("--node-group-auto-discovery=")]
    tags = flag.removeprefix("--node-group-auto-discovery=asg:tag=").split(",")
    for group in stack.created("aws:eks/nodeGroup:NodeGroup"):
        assert set(tags) <= set(group.inputs["tags"]), group.name
    assert (
        container["image"].endswith(f":{cluster_autoscaler('1.35')}")
        and {"name": "AWS_REGION", "value": "us-west-2"} in container["env"]
    )


def test_the_autoscaler_knows_every_instance_type_that_ec2_has(stack: Deployment) -> None:
    """The autoscaler's compiled-in list lacks P5e, P6 and G7, so their pools would never scale up from zero."""
    (container,) = only(stack, "Deployment", "cluster-autoscaler")["spec"]["template"]["spec"]["containers"]
    assert "--aws-use-static-instance-list=false" in container["command"]


def test_the_autoscaler_uses_the_service_account_of_its_role(stack: Deployment) -> None:
    association = stack.only("aws:eks/podIdentityAssociation:PodIdentityAssociation", "autoscaler").inputs
    account = only(stack, "ServiceAccount", "cluster-autoscaler")["metadata"]
    assert (association["namespace"], association["serviceAccount"]) == (account["namespace"], account["name"])


def test_idle_nodes_are_kept_for_the_configured_time() -> None:
    (container,) = only(deployed(asked(idleMinutes=3)), "Deployment", "cluster-autoscaler")["spec"]["template"]["spec"][
        "containers"
    ]
    assert {"--scale-down-unneeded-time=3m", "--scale-down-delay-after-add=3m"} <= set(container["command"])


@pytest.mark.parametrize("version", LIVE_KUBERNETES_VERSIONS)
def test_the_autoscaler_has_the_cluster_s_minor_version(version: str) -> None:
    eks_settings = settings(pool(), target={**PUBLIC, "kubernetesVersion": version}, platform={"install": True, "queue": False})
    upstream = manifests.load(stack_manifests(eks_settings), str(mirror.ensure(print)))
    stack = deploy(eks_settings, facts(eks_settings, manifests=upstream, existing=Existing(version)))
    (container,) = only(stack, "Deployment", "cluster-autoscaler")["spec"]["template"]["spec"]["containers"]
    assert f":v{version}." in container["image"]
