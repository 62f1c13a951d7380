"""Jobs listed in a stack: Pulumi manages the same objects that `submit` creates."""

from typing import Any

import pytest

from infra.config.problems import Problem
from infra.facts import manifests
from infra.facts.gather import list_stack_manifests
from infra.validation import run_rules
from localcloud import mirror
from tests.program.engine import Deployment, deploy
from tests.pure.world import account_facts, pool, settings

MPI_JOB = "kubernetes:kubeflow.org/v2beta1:MPIJob"
JOB, SECRET, STATEFUL_SET = "kubernetes:batch/v1:Job", "kubernetes:core/v1:Secret", "kubernetes:apps/v1:StatefulSet"
SERVICE = "kubernetes:core/v1:Service"
OURS = "gpumpi:infra:StackJobs"


def make_job(**more: Any) -> dict[str, Any]:
    return {
        "name": "mnist",
        "pool": "train",
        "workers": 2,
        "image": "registry.example.com/mnist:1",
        "command": ["python3", "train.py"],
        **more,
    }


def deploy_stack(*jobs: dict[str, Any], **platform: Any) -> Deployment:
    public = {"endpointAccess": {"publicCidrs": ["203.0.113.7/32"]}}
    asked = settings(pool(), target=public, jobs=list(jobs), platform={"install": True, **platform})
    upstream = manifests.load_manifests(list_stack_manifests(asked), str(mirror.ensure_mirror(print)))
    return deploy(asked, account_facts(asked, manifests=upstream))


def find_problems(*jobs: dict[str, Any], **platform: Any) -> list[Problem]:
    public = {"endpointAccess": {"publicCidrs": ["203.0.113.7/32"]}}
    asked = settings(pool(), target=public, jobs=list(jobs), platform={"install": True, **platform})
    return [problem for problem in run_rules(asked, account_facts(asked)) if problem.is_error]


def test_a_job_is_a_child_of_its_component_and_created_after_its_dependencies() -> None:
    deployment = deploy_stack(make_job())
    mpi_job = deployment.find_resource(MPI_JOB, "mnist")
    assert mpi_job.parents[-1] == OURS
    before = deployment.list_dependency_names(mpi_job)
    assert {"gpumpi-test-namespaces-mpi-jobs-queue", "gpumpi-test-queue-controller"} <= before
    assert any("mpi-operator" in name for name in before)
    assert any("shared-volume" in name for name in before)


def test_up_keeps_a_job_of_the_stack_and_does_not_wait_for_it() -> None:
    mpi_job = deploy_stack(make_job(ttlSecondsAfterFinished=60)).find_resource(MPI_JOB, "mnist")
    assert "ttlSecondsAfterFinished" not in mpi_job.inputs["spec"]["runPolicy"]
    assert mpi_job.inputs["metadata"]["annotations"]["pulumi.com/skipAwait"] == "true"
    assert mpi_job.delete_before_replace


def test_the_launcher_of_a_standalone_job_is_created_after_the_workers() -> None:
    deployment = deploy_stack(make_job(launcher="standalone"))
    launcher, workers = deployment.find_resource(JOB, "mnist-launcher"), deployment.find_resource(STATEFUL_SET, "mnist-worker")
    assert workers.name in deployment.list_dependency_names(launcher)
    assert deployment.find_resource(SECRET, "mnist-ssh").ignored_changes == ("stringData", "data")


def test_pods_that_use_the_key_bucket_are_created_after_their_permissions() -> None:
    cloud = deploy_stack(make_job(launcher="standalone", keyExchange="s3"))
    assert cloud.find_resources(SECRET, "mnist-ssh") == []
    workers = cloud.find_resource(STATEFUL_SET, "mnist-worker")
    assert {"gpumpi-test-mpi-jobs-job-association", "gpumpi-test-namespaces-mpi-jobs-key-bucket"} <= cloud.list_dependency_names(
        workers
    )


def test_a_torchrun_job_is_created_after_its_headless_service() -> None:
    deployment = deploy_stack(make_job(launcher="torchrun"))
    assert deployment.find_resource(SERVICE, "jobs-service-mnist").name in deployment.list_dependency_names(
        deployment.find_resource(JOB, "mnist")
    )


def test_a_stack_without_jobs_has_no_job_resources() -> None:
    assert deploy_stack().find_resources(OURS) == []


@pytest.mark.parametrize("launcher", ["mpijob", "standalone", "torchrun"])
def test_up_without_changes_does_not_replace_a_job(launcher: str) -> None:
    """Each run of the program generates new keys, which must not change the digest."""
    before, after = (deploy_stack(make_job(launcher=launcher, setup=["true"])) for _ in range(2))
    for old in (resource for resource in before.resources if resource.parents[-1:] == (OURS,)):
        (new,) = after.find_by_name(old.name)
        assert new.replacement_trigger == old.replacement_trigger != ""


@pytest.mark.parametrize("launcher", ["mpijob", "standalone", "torchrun"])
def test_a_changed_job_is_replaced(launcher: str) -> None:
    triggers = {
        resource.replacement_trigger
        for epochs in ("1", "2")
        for resource in deploy_stack(make_job(launcher=launcher, env={"EPOCHS": epochs})).resources
        if resource.parents[-1:] == (OURS,)
    }
    assert len(triggers) == 2


def test_up_does_not_revert_changes_of_the_job_controller_after_setup() -> None:
    released = ('metadata.labels["kueue.x-k8s.io/queue-name"]', "spec.suspend", "spec.runPolicy.suspend", "spec.replicas")
    assert deploy_stack(make_job(setup=["true"])).find_resource(MPI_JOB, "mnist").ignored_changes == released
    assert not deploy_stack(make_job()).find_resource(MPI_JOB, "mnist").ignored_changes
    deployment = deploy_stack(make_job(launcher="standalone", setup=["true"]))
    assert deployment.find_resource(JOB, "mnist-launcher").ignored_changes == released
    assert not deployment.find_resource(JOB, "mnist-setup").ignored_changes
    assert deployment.find_resource(STATEFUL_SET, "mnist-worker").ignored_changes == released


@pytest.mark.parametrize(
    ("jobs", "platform", "message"),
    [
        ([make_job(workers=3)], {}, "jobs[0].workers: 3 can never fit: pool train has at most 2 nodes, 1 worker per node. "
         "Use at most 2, or raise the pool's maxSize."),
        ([make_job(), make_job()], {}, 'jobs[1].name: "mnist" is already the name of jobs[0]. Choose another.'),
        ([make_job(namespace="mine")], {}, 'jobs[0].namespace: "mine" is not in platform.namespaces. Add it there.'),
        ([make_job()], {"install": False},
         "jobs: require the platform, but platform.install is false. Set it to true, or remove the jobs."),
        ([make_job()], {"mpiOperator": False},
         "jobs[0].launcher: mpijob needs mpi-operator, which gpumpi-test does not have. Use standalone or torchrun."),
    ],
)  # fmt: skip
def test_an_impossible_job_is_reported_before_anything_is_created(
    jobs: list[dict[str, Any]], platform: dict[str, Any], message: str
) -> None:
    assert [str(problem) for problem in find_problems(*jobs, **platform)] == [message]
