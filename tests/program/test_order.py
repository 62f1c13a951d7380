"""Dependencies: nothing waits unnecessarily for the control plane, and nodes wait for everything they need."""

import pytest

from tests.program import engine
from tests.program.engine import Deployment, deploy
from tests.pure import world

BESIDE_THE_CONTROL_PLANE = (
    engine.VPC,
    engine.SUBNET,
    engine.NAT_GATEWAY,
    engine.ROUTE,
    engine.VPC_ENDPOINT,
    engine.FLOW_LOG,
    engine.SECURITY_GROUP,
    engine.INGRESS_RULE,
    engine.EGRESS_RULE,
    engine.PLACEMENT_GROUP,
    engine.ROLE,
    engine.ROLE_POLICY,
    engine.ROLE_POLICY_ATTACHMENT,
    engine.KEY,
    engine.LOG_GROUP,
    engine.FILE_SYSTEM,
    engine.FILE_SYSTEM_POLICY,
    engine.MOUNT_TARGET,
    engine.ACCESS_POINT,
    engine.BUCKET,
    engine.BUCKET_POLICY,
)
"""Types of resources that can be created during the nine minutes in which EKS creates the control plane."""


@pytest.fixture(scope="module")
def deployment() -> Deployment:
    settings = world.settings(world.pool("one", "p4d.24xlarge"), world.pool("two", "g5.xlarge"), target={"endpointAccess": {}})
    return deploy(settings, world.account_facts(settings))


@pytest.mark.parametrize("token", BESIDE_THE_CONTROL_PLANE)
def test_resource_creation_does_not_wait_for_the_control_plane(deployment: Deployment, token: str) -> None:
    resources = deployment.find_resources(token)
    assert resources, f"the stack has no {token}"
    assert not [
        resource.name
        for resource in resources
        if deployment.find_resource(engine.CLUSTER) in deployment.list_dependencies(resource)
    ]


def test_the_control_plane_waits_only_for_its_subnets_role_key_and_log_group(deployment: Deployment) -> None:
    types = {
        resource.type for resource in deployment.list_dependencies(deployment.find_resource(engine.CLUSTER)) if resource.custom
    }
    assert types == {
        engine.VPC,
        engine.SUBNET,
        engine.ROLE,
        engine.ROLE_POLICY_ATTACHMENT,
        engine.KEY,
        engine.LOG_GROUP,
    }


NODE_NEEDS = (
    "gpumpi-test-addon-vpc-cni",
    "gpumpi-test-addon-eks-pod-identity-agent",
    "gpumpi-test-node-AmazonEKSWorkerNodePolicy",
    "gpumpi-test-node-AmazonEC2ContainerRegistryPullOnly",
    "gpumpi-test-network-s3-endpoint",
    "gpumpi-test-network-private-us-west-2a-internet-route",
    "gpumpi-test-network-private-us-west-2a-route-table-association",
    "gpumpi-test-nodes-self-ingress",
    "gpumpi-test-nodes-self-egress",
    "gpumpi-test-nodes-0.0.0.0/0-egress",
)


@pytest.mark.parametrize("pool", ["system", "one", "two"])
@pytest.mark.parametrize("need", NODE_NEEDS)
def test_a_node_group_is_created_after_everything_its_nodes_need_to_join(deployment: Deployment, pool: str, need: str) -> None:
    assert need in deployment.list_dependency_names(deployment.find_resource(engine.NODE_GROUP, f"test-{pool}"))


@pytest.mark.parametrize("pool", ["system", "one", "two"])
def test_node_pools_do_not_wait_for_each_other(deployment: Deployment, pool: str) -> None:
    waits = deployment.list_dependency_names(deployment.find_resource(engine.NODE_GROUP, f"test-{pool}"))
    assert not {f"gpumpi-test-{other}" for other in ("system", "one", "two") if other != pool} & waits


@pytest.mark.parametrize("addon", ["kube-proxy", "coredns", "aws-efs-csi-driver", "eks-node-monitoring-agent", "metrics-server"])
def test_an_add_on_that_needs_nodes_waits_only_for_the_system_pool(deployment: Deployment, addon: str) -> None:
    waits = deployment.list_dependency_names(deployment.find_resource(engine.ADDON, addon))
    assert "gpumpi-test-system" in waits
    assert not {"gpumpi-test-one", "gpumpi-test-two"} & waits


@pytest.mark.parametrize("addon", ["vpc-cni", "eks-pod-identity-agent"])
def test_an_add_on_required_by_nodes_waits_for_no_pool(deployment: Deployment, addon: str) -> None:
    assert "gpumpi-test-system" not in deployment.list_dependency_names(deployment.find_resource(engine.ADDON, addon))


def test_node_groups_do_not_wait_for_storage(deployment: Deployment) -> None:
    waits = deployment.list_dependencies(deployment.find_resource(engine.NODE_GROUP, "test-one"))
    assert not [wait.name for wait in waits if wait.type.startswith("aws:efs/")]


def test_nat_gateways_are_deleted_before_the_internet_gateway(deployment: Deployment) -> None:
    assert "gpumpi-test-network-internet-gateway" in deployment.list_dependency_names(
        deployment.find_resource(engine.NAT_GATEWAY)
    )
