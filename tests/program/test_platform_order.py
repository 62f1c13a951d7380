"""Dependencies between platform resources: those that the deletion order needs, and no others, so that creation is
fast.
"""

import pytest

from tests.program import engine
from tests.program.engine import Deployment, Resource
from tests.program.platform_world import asked, deployed, in_cluster, manifest, usual
from tests.program.test_jobs import job
from tests.program.test_jobs import stack as jobs_stack

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
    return usual()


def waits(stack: Deployment, resource: Resource) -> set[str]:
    return stack.names_before(resource)


def test_the_provider_waits_for_its_caller_s_access_entry(stack: Deployment) -> None:
    provider = stack.only(PROVIDER)
    before = {resource.type for resource in stack.waits_for(provider)}
    assert engine.ACCESS_POLICY in before and engine.CLUSTER in before
    assert engine.NODE_GROUP not in before


@pytest.mark.parametrize("name", ["mpi-operator-deployment", "queue-controller", "cluster-autoscaler-deployment"])
def test_workloads_on_system_nodes_wait_for_them_and_are_deleted_before_them(stack: Deployment, name: str) -> None:
    before = waits(stack, stack.only(DEPLOYMENT, name))
    assert SYSTEM in before
    assert not {"gpumpi-test-train", "gpumpi-test-single"} & before, "a GPU pool without capacity must not block the platform"


def test_node_agents_wait_for_no_node(stack: Deployment) -> None:
    for resource in stack.created(DAEMON_SET):
        assert SYSTEM not in waits(stack, resource)


def test_no_object_waits_for_a_gpu_pool(stack: Deployment) -> None:
    for resource in in_cluster(stack):
        assert not {"gpumpi-test-train", "gpumpi-test-single"} & waits(stack, resource), resource.name


def test_a_controller_waits_for_its_crds_and_permissions(stack: Deployment) -> None:
    operator = waits(stack, stack.only(DEPLOYMENT, "mpi-operator"))
    assert {resource.name for resource in stack.created(DEFINITION, "mpi-operator")} <= operator
    assert any("clusterrolebinding" in name for name in operator)
    queue = waits(stack, stack.only(DEPLOYMENT, "queue-controller"))
    assert len(stack.created(DEFINITION, "queue")) == 11
    assert {resource.name for resource in stack.created(DEFINITION, "queue")} <= queue
    assert any("webhookconfiguration" in name for name in queue), "the controller waits until they contain its certificate"


def test_crds_wait_for_nothing_in_the_cluster(stack: Deployment) -> None:
    for resource in stack.created(DEFINITION):
        assert not [before.name for before in stack.waits_for(resource) if before.type.startswith("kubernetes:")]


def test_queue_objects_are_created_and_deleted_while_the_webhooks_answer(stack: Deployment) -> None:
    for resource in [*stack.created(CLUSTER_QUEUE), *stack.created(FLAVOR), *stack.created(LOCAL_QUEUE)]:
        assert "gpumpi-test-queue-controller" in waits(stack, resource), resource.name
    flavors = {resource.name for resource in stack.created(FLAVOR)}
    assert flavors <= waits(stack, stack.only(CLUSTER_QUEUE)), "Kueue keeps the finalizer of a flavor that is in use"


def test_a_job_namespace_is_deleted_while_the_controllers_with_finalizers_run(stack: Deployment) -> None:
    before = waits(stack, stack.only(NAMESPACE, "mpi-jobs"))
    assert {"gpumpi-test-queue-controller", "gpumpi-test-queue-cluster-queue"} <= before
    assert any(name.endswith("deployment-mpi-operator") for name in before)


def test_objects_wait_for_their_namespace(stack: Deployment) -> None:
    homes = {manifest(resource)["metadata"]["name"]: resource.name for resource in stack.created(NAMESPACE)}
    for resource in in_cluster(stack):
        home = homes.get(manifest(resource)["metadata"].get("namespace", ""))
        assert home is None or home in waits(stack, resource), resource.name


def test_a_claim_waits_for_its_volume(stack: Deployment) -> None:
    assert any(name.endswith("-volume") for name in waits(stack, stack.only(CLAIM)))


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
def with_a_job() -> Deployment:
    return jobs_stack(job())


@pytest.mark.parametrize("need", NEEDED_BY_MOUNTS)
@pytest.mark.parametrize(
    ("token", "name"), [(NAMESPACE, "mpi-jobs"), (CLAIM, "mpi-jobs"), (VOLUME, "mpi-jobs"), (MPI_JOB, "mnist")]
)
def test_destroy_ends_jobs_and_volumes_before_what_their_mounts_need(
    with_a_job: Deployment, token: str, name: str, need: str
) -> None:
    assert need in waits(with_a_job, with_a_job.only(token, name))


@pytest.mark.parametrize("need", ["gpumpi-test-mpi-jobs-job-policy", "gpumpi-test-mpi-jobs-job-association"])
def test_destroy_ends_jobs_before_their_permissions(stack: Deployment, need: str) -> None:
    assert need in waits(stack, stack.only(NAMESPACE, "mpi-jobs"))


def test_the_autoscaler_starts_with_its_role(stack: Deployment) -> None:
    assert "gpumpi-test-autoscaler-association" in waits(stack, stack.only(DEPLOYMENT, "autoscaler"))


def test_the_description_does_not_wait_for_nodes_or_the_queue(stack: Deployment) -> None:
    before = waits(stack, stack.only("kubernetes:core/v1:ConfigMap", "description"))
    assert not {SYSTEM, "gpumpi-test-queue-controller"} & before


def test_without_queue_operator_and_storage_a_namespace_waits_for_no_node() -> None:
    bare = deployed(asked(queue=False, mpiOperator=False, storage={"efs": "none"}))
    assert SYSTEM not in waits(bare, bare.only(NAMESPACE, "mpi-jobs"))


def test_kueue_starts_after_trainer_so_that_it_knows_train_jobs_from_the_start() -> None:
    stack = deployed(asked(trainer=True))
    before = waits(stack, stack.only(DEPLOYMENT, "queue-controller"))
    trainer = {resource.name for resource in stack.created(DEPLOYMENT) if resource.name.split("-")[2] in ("jobset", "trainer")}
    assert len(trainer) == 2 and trainer <= before
