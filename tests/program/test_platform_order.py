"""Dependencies between platform resources: those that the deletion order needs, and no others, so that creation is
fast.
"""

import pytest

from tests.program import engine
from tests.program.engine import Deployment, Resource
from tests.program.platform_world import (
    deploy_default_platform,
    deploy_platform,
    list_kubernetes_resources,
    make_settings,
    to_manifest,
)
from tests.program.test_jobs import deploy_stack as jobs_stack
from tests.program.test_jobs import make_job

PROVIDER = "pulumi:providers:kubernetes"
DEFINITION = "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition"
DEPLOYMENT = "kubernetes:apps/v1:Deployment"
DAEMON_SET = "kubernetes:apps/v1:DaemonSet"
NAMESPACE = "kubernetes:core/v1:Namespace"
LOCAL_QUEUE = "kubernetes:kueue.x-k8s.io/v1beta2:LocalQueue"
CLUSTER_QUEUE = "kubernetes:kueue.x-k8s.io/v1beta2:ClusterQueue"
FLAVOR = "kubernetes:kueue.x-k8s.io/v1beta2:ResourceFlavor"
CLAIM = "kubernetes:core/v1:PersistentVolumeClaim"
VOLUME = "kubernetes:core/v1:PersistentVolume"
MPI_JOB = "kubernetes:kubeflow.org/v2beta1:MPIJob"
SYSTEM = "gpumpi-test-system"


@pytest.fixture
def stack() -> Deployment:
    return deploy_default_platform()


def list_dependency_names(stack: Deployment, resource: Resource) -> set[str]:
    return stack.list_dependency_names(resource)


def test_the_kubernetes_provider_waits_for_the_access_entry_of_the_caller(stack: Deployment) -> None:
    provider = stack.find_resource(PROVIDER)
    before = {resource.type for resource in stack.list_dependencies(provider)}
    assert engine.ACCESS_POLICY in before and engine.CLUSTER in before
    assert engine.NODE_GROUP not in before


@pytest.mark.parametrize("name", ["mpi-operator-deployment", "queue-controller", "cluster-autoscaler-deployment"])
def test_workloads_on_system_nodes_are_created_after_and_deleted_before_the_nodes(stack: Deployment, name: str) -> None:
    before = list_dependency_names(stack, stack.find_resource(DEPLOYMENT, name))
    assert SYSTEM in before
    assert not {"gpumpi-test-train", "gpumpi-test-single"} & before, "a GPU pool without capacity must not block the platform"


def test_node_agents_wait_for_no_node_pool(stack: Deployment) -> None:
    for resource in stack.find_resources(DAEMON_SET):
        assert SYSTEM not in list_dependency_names(stack, resource)


def test_no_kubernetes_object_waits_for_a_gpu_pool(stack: Deployment) -> None:
    for resource in list_kubernetes_resources(stack):
        assert not {"gpumpi-test-train", "gpumpi-test-single"} & list_dependency_names(stack, resource), resource.name


def test_a_controller_waits_for_its_crds_and_permissions(stack: Deployment) -> None:
    operator = list_dependency_names(stack, stack.find_resource(DEPLOYMENT, "mpi-operator"))
    assert {resource.name for resource in stack.find_resources(DEFINITION, "mpi-operator")} <= operator
    assert any("clusterrolebinding" in name for name in operator)
    queue = list_dependency_names(stack, stack.find_resource(DEPLOYMENT, "queue-controller"))
    assert len(stack.find_resources(DEFINITION, "queue")) == 11
    assert {resource.name for resource in stack.find_resources(DEFINITION, "queue")} <= queue
    assert any("webhookconfiguration" in name for name in queue), "the controller waits until they contain its certificate"


def test_crds_do_not_wait_for_other_kubernetes_objects(stack: Deployment) -> None:
    for resource in stack.find_resources(DEFINITION):
        assert not [before.name for before in stack.list_dependencies(resource) if before.type.startswith("kubernetes:")]


def test_queue_objects_are_created_and_deleted_while_the_webhooks_are_running(stack: Deployment) -> None:
    for resource in [*stack.find_resources(CLUSTER_QUEUE), *stack.find_resources(FLAVOR), *stack.find_resources(LOCAL_QUEUE)]:
        assert "gpumpi-test-queue-controller" in list_dependency_names(stack, resource), resource.name
    flavors = {resource.name for resource in stack.find_resources(FLAVOR)}
    assert flavors <= list_dependency_names(stack, stack.find_resource(CLUSTER_QUEUE)), (
        "Kueue keeps the finalizer of a flavor that is in use"
    )


def test_a_job_namespace_is_deleted_before_the_controllers_that_remove_finalizers(stack: Deployment) -> None:
    before = list_dependency_names(stack, stack.find_resource(NAMESPACE, "mpi-jobs"))
    assert {"gpumpi-test-queue-controller", "gpumpi-test-queue-cluster-queue"} <= before
    assert any(name.endswith("deployment-mpi-operator") for name in before)


def test_kubernetes_objects_wait_for_their_namespace(stack: Deployment) -> None:
    homes = {to_manifest(resource)["metadata"]["name"]: resource.name for resource in stack.find_resources(NAMESPACE)}
    for resource in list_kubernetes_resources(stack):
        home = homes.get(to_manifest(resource)["metadata"].get("namespace", ""))
        assert home is None or home in list_dependency_names(stack, resource), resource.name


def test_a_volume_claim_waits_for_its_volume(stack: Deployment) -> None:
    assert any(name.endswith("-volume") for name in list_dependency_names(stack, stack.find_resource(CLAIM)))


NEEDED_BY_MOUNTS = (
    "gpumpi-test-service-aws-efs-csi-driver",
    "gpumpi-test-service-efs-csi-driver-policy",
    "gpumpi-test-storage-us-west-2a-mount-target",
    "gpumpi-test-storage-us-west-2b-mount-target",
    "gpumpi-test-storage-us-west-2c-mount-target",
    "gpumpi-test-storage-nodes-ingress",
    "gpumpi-test-nodes-self-ingress",
    "gpumpi-test-nodes-self-egress",
    "gpumpi-test-nodes-0.0.0.0/0-egress",
)


@pytest.fixture(scope="module")
def stack_with_job() -> Deployment:
    return jobs_stack(make_job())


@pytest.mark.parametrize("need", NEEDED_BY_MOUNTS)
@pytest.mark.parametrize(
    ("token", "name"), [(NAMESPACE, "mpi-jobs"), (CLAIM, "mpi-jobs"), (VOLUME, "mpi-jobs"), (MPI_JOB, "mnist")]
)
def test_destroy_deletes_jobs_and_volumes_before_the_resources_their_mounts_need(
    stack_with_job: Deployment, token: str, name: str, need: str
) -> None:
    assert need in list_dependency_names(stack_with_job, stack_with_job.find_resource(token, name))


@pytest.mark.parametrize("need", ["gpumpi-test-mpi-jobs-job-policy", "gpumpi-test-mpi-jobs-job-association"])
def test_destroy_deletes_jobs_before_their_permissions(stack: Deployment, need: str) -> None:
    assert need in list_dependency_names(stack, stack.find_resource(NAMESPACE, "mpi-jobs"))


def test_the_autoscaler_is_created_after_its_role(stack: Deployment) -> None:
    assert "gpumpi-test-autoscaler-association" in list_dependency_names(stack, stack.find_resource(DEPLOYMENT, "autoscaler"))


def test_the_cluster_description_does_not_wait_for_nodes_or_the_queue(stack: Deployment) -> None:
    before = list_dependency_names(stack, stack.find_resource("kubernetes:core/v1:ConfigMap", "description"))
    assert not {SYSTEM, "gpumpi-test-queue-controller"} & before


def test_a_namespace_waits_for_no_node_without_queue_operator_and_storage() -> None:
    bare = deploy_platform(make_settings(queue=False, mpiOperator=False, storage={"efs": "none"}))
    assert SYSTEM not in list_dependency_names(bare, bare.find_resource(NAMESPACE, "mpi-jobs"))


def test_kueue_is_created_after_trainer_to_detect_train_jobs_at_startup() -> None:
    stack = deploy_platform(make_settings(trainer=True))
    before = list_dependency_names(stack, stack.find_resource(DEPLOYMENT, "queue-controller"))
    trainer = {
        resource.name for resource in stack.find_resources(DEPLOYMENT) if resource.name.split("-")[2] in ("jobset", "trainer")
    }
    assert len(trainer) == 2 and trainer <= before
