"""Job queue: flavors, quotas and webhooks."""

from collections import Counter

import pytest
import yaml

from infra.jobs.cluster import ClusterDescription
from infra.jobs.model import Job
from infra.jobs.quantities import bytes_of, millis_of
from infra.plan.allocatable import for_jobs
from infra.platform import admission
from infra.platform.cluster_autoscaler import NODE_MINUTES
from tests.program.engine import Deployment
from tests.program.platform_world import asked, deployed, description, objects, only, quotas, usual
from tests.pure.world import instance_type


@pytest.fixture
def stack() -> Deployment:
    return usual()


def test_every_pool_is_a_flavor_with_its_label_and_taints(stack: Deployment) -> None:
    found = {one["metadata"]["name"]: one["spec"] for one in objects(stack, "ResourceFlavor")}
    assert set(found) == {"system", "train", "single"} == set(quotas(stack))
    groups = {one.inputs["labels"]["gpumpi.io/pool"]: one.inputs for one in stack.created("aws:eks/nodeGroup:NodeGroup")}
    for name, flavor in found.items():
        assert flavor["nodeLabels"] == {"gpumpi.io/pool": name}
        taints = [(one["key"], one["value"]) for one in groups[name].get("taints") or []]
        assert [(one["key"], one["value"]) for one in flavor.get("nodeTaints", [])] == taints


def test_quotas_are_the_capacity_of_the_pools_at_maximum_size(stack: Deployment) -> None:
    p4d = for_jobs(instance_type("p4d.24xlarge"), huge_pages_mib=10256)
    train = quotas(stack)["train"]
    assert (train["nvidia.com/gpu"], train["vpc.amazonaws.com/efa"]) == ("32", "16")
    assert bytes_of(train["hugepages-2Mi"]) == 4 * 10256 * 1024**2
    assert bytes_of(train["memory"]) == 4 * p4d.memory_mib * 1024**2
    assert millis_of(train["cpu"]) == 4 * p4d.cpu_millis
    assert quotas(stack)["single"]["vpc.amazonaws.com/efa"] == quotas(stack)["system"]["nvidia.com/gpu"] == "0"


def test_cpu_quotas_shrink_with_the_requests() -> None:
    small, full = quotas(deployed(asked(cpuRequestFactor=0.5))), quotas(usual())
    assert millis_of(small["train"]["cpu"]) == millis_of(full["train"]["cpu"]) // 2
    assert small["train"]["memory"] == full["train"]["memory"]


@pytest.mark.parametrize("launcher", ["mpijob", "torchrun", "openmpi"])
def test_the_largest_job_of_a_pool_is_within_its_quota(stack: Deployment, launcher: str) -> None:
    """Every resource that the job's pods request has a sufficient quota; otherwise the job would wait forever."""
    total = requests(description(stack), launcher, workers=4)
    train, system = quotas(stack)["train"], quotas(stack)["system"]
    for resource, amount in total["train"].items():
        assert amount <= bytes_of(train[resource]) if resource != "cpu" else amount <= millis_of(train["cpu"]), resource
    for resource, amount in total.get("system", {}).items():
        assert amount <= bytes_of(system[resource]) if resource != "cpu" else amount <= millis_of(system["cpu"]), resource


def requests(cluster: ClusterDescription, launcher: str, workers: int) -> dict[str, Counter[str]]:
    """Return the total pod requests in each pool, for a job whose workers use whole nodes of `train`."""
    from infra.jobs.keys import KeyPair
    from infra.jobs.render import render

    job = Job.model_validate(
        {"name": "big", "launcher": launcher, "pool": "train", "workers": workers, "image": "a:1", "command": ["true"]}
    )
    found: dict[str, Counter[str]] = {}
    for piece in render(job, cluster, lambda: KeyPair("private", "public")):
        spec = piece.manifest.get("spec", {})
        replicas = list(spec.get("mpiReplicaSpecs", {}).values()) or [spec]
        for replica in replicas:
            pod = replica.get("template", {}).get("spec")
            if pod is None:
                continue
            times = replica.get("replicas") or replica.get("completions") or 1
            amounts = found.setdefault(pod["nodeSelector"]["gpumpi.io/pool"], Counter())
            for container in pod["containers"]:
                for resource, text in container["resources"]["requests"].items():
                    amounts[resource] += times * (millis_of(str(text)) if resource == "cpu" else bytes_of(str(text)))
    return found


def test_a_job_s_start_timeout_exceeds_a_node_s_start(stack: Deployment) -> None:
    text = only(stack, "ConfigMap", "kueue-manager-config")["data"]["controller_manager_config.yaml"]
    configuration = yaml.safe_load(text)
    waits = configuration["waitForPodsReady"]
    assert int(waits["timeout"].removesuffix("m")) > NODE_MINUTES
    assert int(waits["recoveryTimeout"].removesuffix("m")) > NODE_MINUTES
    assert configuration["integrations"]["frameworks"] == ["batch/job", "pod", "statefulset", "kubeflow.org/mpijob"]


def test_without_the_operator_the_queue_ignores_mpi_jobs() -> None:
    assert "kubeflow.org/mpijob" not in admission.configuration(mpi_jobs=False)["integrations"]["frameworks"]


@pytest.mark.parametrize(("order", "strategy"), [("strict", "StrictFIFO"), ("bestEffort", "BestEffortFIFO")])
def test_the_stack_chooses_the_queueing_strategy(order: str, strategy: str) -> None:
    spec = only(deployed(asked(queueOrder=order)), "ClusterQueue", "default")["spec"]
    assert spec["queueingStrategy"] == strategy
    assert spec["preemption"] == {"withinClusterQueue": "Never", "reclaimWithinCohort": "Never"}


def test_the_queue_s_webhooks_apply_only_to_job_namespaces(stack: Deployment) -> None:
    for configuration in objects(stack, "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        assert configuration["metadata"]["name"].startswith("kueue-")
        for webhook in configuration["webhooks"]:
            assert webhook["clientConfig"]["service"]["name"] == "kueue-webhook-service"
            of_kueue = webhook["rules"][0]["apiGroups"] == ["kueue.x-k8s.io"]
            assert of_kueue or webhook["namespaceSelector"] == {"matchLabels": {"gpumpi.io/jobs": "true"}}


def test_the_queue_has_permissions_only_for_installed_kinds(stack: Deployment) -> None:
    groups = {group for rule in only(stack, "ClusterRole", "kueue-manager-role")["rules"] for group in rule["apiGroups"]}
    assert {"kueue.x-k8s.io", "kubeflow.org", "batch", "apps"} <= groups
    assert not {"ray.io", "jobset.x-k8s.io", "trainer.kubeflow.org"} & groups


def test_quantities_are_formatted_as_kueue_stores_them() -> None:
    assert [admission.cpu(one) for one in (0, 500, 2000, 2500)] == ["0", "500m", "2", "2500m"]
    assert [admission.memory(one) for one in (0, 512, 1024, 1536, 2 * 1024**2)] == ["0", "512Mi", "1Gi", "1536Mi", "2Ti"]
