"""Job queue: flavors, quotas and webhooks."""

from collections import Counter

import pytest
import yaml

from infra.jobs.cluster import ClusterDescription, PoolDescription, TaintDescription
from infra.jobs.model import Job
from infra.jobs.sizing import bytes_of, millis_of
from infra.plan.node_capacity import for_jobs
from infra.platform import admission
from infra.platform.cluster_autoscaler import NODE_MINUTES
from tests.program.engine import Deployment
from tests.program.platform_world import asked, deployed, description, objects, only, quotas, usual
from tests.pure.world import instance_type


@pytest.fixture
def stack() -> Deployment:
    return usual()


def test_every_pool_is_a_flavor_with_its_label_and_taints(stack: Deployment) -> None:
    flavors = {flavor["metadata"]["name"]: flavor["spec"] for flavor in objects(stack, "ResourceFlavor")}
    assert set(flavors) == {"system", "train", "single"} == set(quotas(stack))
    groups = {pool.inputs["labels"]["gpumpi.io/pool"]: pool.inputs for pool in stack.created("aws:eks/nodeGroup:NodeGroup")}
    for name, flavor in flavors.items():
        assert flavor["nodeLabels"] == {"gpumpi.io/pool": name}
        taints = [(taint["key"], taint["value"]) for taint in groups[name].get("taints") or []]
        assert [(taint["key"], taint["value"]) for taint in flavor.get("nodeTaints", [])] == taints


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


@pytest.mark.parametrize("launcher", ["mpijob", "torchrun", "standalone"])
def test_the_largest_job_of_a_pool_is_within_its_quota(stack: Deployment, launcher: str) -> None:
    """Every resource that the job's pods request has a sufficient quota; otherwise the job would wait forever."""
    total = requests(description(stack), launcher, workers=4)
    train, system = quotas(stack)["train"], quotas(stack)["system"]
    for resource, amount in total["train"].items():
        assert amount <= bytes_of(train[resource]) if resource != "cpu" else amount <= millis_of(train["cpu"]), resource
    for resource, amount in total.get("system", {}).items():
        assert amount <= bytes_of(system[resource]) if resource != "cpu" else amount <= millis_of(system["cpu"]), resource


def requests(cluster: ClusterDescription, launcher: str, workers: int) -> dict[str, Counter[str]]:
    """Return the total resource requests in each pool, for a job whose workers use whole nodes of `train`."""
    from infra.jobs.placed import KeyPair
    from infra.jobs.render import place, render

    job = Job.model_validate(
        {
            "name": "big",
            "launcher": launcher,
            "pool": "train",
            "workers": workers,
            "image": "registry.example.com/a:1",
            "command": ["true"],
        }
    )
    requests_by_pool: dict[str, Counter[str]] = {}
    for piece in render(place(job, cluster), lambda: KeyPair("private", "public")):
        spec = piece.get("spec", {})
        replicas = list(spec.get("mpiReplicaSpecs", {}).values()) or [spec]
        for replica in replicas:
            pod = replica.get("template", {}).get("spec")
            if pod is None:
                continue
            times = replica.get("replicas") or replica.get("completions") or 1
            amounts = requests_by_pool.setdefault(pod["nodeSelector"]["gpumpi.io/pool"], Counter())
            for container in pod["containers"]:
                for resource, text in container["resources"]["requests"].items():
                    amounts[resource] += times * (millis_of(str(text)) if resource == "cpu" else bytes_of(str(text)))
    return requests_by_pool


def test_a_job_s_start_timeout_exceeds_a_node_s_start(stack: Deployment) -> None:
    text = only(stack, "ConfigMap", "kueue-manager-config")["data"]["controller_manager_config.yaml"]
    configuration = yaml.safe_load(text)
    waits = configuration["waitForPodsReady"]
    assert int(waits["timeout"].removesuffix("m")) > NODE_MINUTES
    assert int(waits["recoveryTimeout"].removesuffix("m")) > NODE_MINUTES


FOREIGN = {
    "kubeflow.org/pytorchjob": ("kubeflow.org", "pytorchjobs"),
    "jobset.x-k8s.io/jobset": ("jobset.x-k8s.io", "jobsets"),
    "trainer.kubeflow.org/trainjob": ("trainer.kubeflow.org", "trainjobs"),
    "ray.io/rayjob": ("ray.io", "rayjobs"),
}


def test_jobs_of_other_operators_are_admitted_as_gangs_once_their_kind_exists(stack: Deployment) -> None:
    text = only(stack, "ConfigMap", "kueue-manager-config")["data"]["controller_manager_config.yaml"]
    assert yaml.safe_load(text)["integrations"]["frameworks"] == [
        *("batch/job", "pod", "statefulset", "kubeflow.org/mpijob"),
        *FOREIGN,
    ]
    rules = only(stack, "ClusterRole", "kueue-manager-role")["rules"]
    permitted = {(group, kind) for rule in rules for group in rule["apiGroups"] for kind in rule["resources"]}
    checked = {
        (rule["apiGroups"][0], rule["resources"][0])
        for configuration in objects(stack, "MutatingWebhookConfiguration")
        for webhook in configuration["webhooks"]
        for rule in webhook["rules"]
    }
    assert set(FOREIGN.values()) <= permitted & checked


def test_without_the_operator_the_queue_ignores_mpi_jobs() -> None:
    configuration = admission.configuration(mpi_jobs=False, start_attempts=3, strict=True)
    assert "kubeflow.org/mpijob" not in configuration["integrations"]["frameworks"]


def test_jobs_with_gpus_tolerate_the_taint_of_gpu_pools_and_other_jobs_try_other_pools_first(stack: Deployment) -> None:
    toleration = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    tolerations = {flavor["metadata"]["name"]: flavor["spec"].get("tolerations") for flavor in objects(stack, "ResourceFlavor")}
    assert tolerations == {"train": [toleration], "single": [toleration], "system": None}
    (group,) = only(stack, "ClusterQueue", "default")["spec"]["resourceGroups"]
    assert [flavor["name"] for flavor in group["flavors"]] == ["system", "train", "single"]


def test_the_queue_tolerates_only_taints_named_like_a_resource_of_the_pool() -> None:
    pool = PoolDescription(
        name="train",
        gpus=8,
        slots=8,
        memory_mib=1,
        cpu_millis=1,
        max_size=1,
        taints=(
            TaintDescription(key="nvidia.com/gpu", value="true"),
            TaintDescription(key="vpc.amazonaws.com/efa"),  # the pool has no EFA
            TaintDescription(key="team", value="vision"),
            TaintDescription(key="nvidia.com/gpu", value="broken", effect="NoExecute"),
        ),
    )
    assert admission.flavor(pool)["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]


@pytest.mark.parametrize(("order", "gate"), [("strict", False), ("bestEffort", None)])
def test_a_strict_queue_tries_a_waiting_job_s_flavors_from_the_first_one(order: str, gate: bool | None) -> None:
    text = only(deployed(asked(queueOrder=order)), "ConfigMap", "kueue-manager-config")["data"]["controller_manager_config.yaml"]
    assert yaml.safe_load(text)["featureGates"].get("FlavorFungibility") is gate


@pytest.mark.parametrize(("attempts", "requeues"), [(None, 9), (1, 0), (0, None)])
def test_the_queue_stops_a_job_that_cannot_start_after_the_chosen_number_of_attempts(
    attempts: int | None, requeues: int | None
) -> None:
    chosen = {} if attempts is None else {"startAttempts": attempts}
    text = only(deployed(asked(**chosen)), "ConfigMap", "kueue-manager-config")["data"]["controller_manager_config.yaml"]
    assert yaml.safe_load(text)["waitForPodsReady"]["requeuingStrategy"].get("backoffLimitCount") == requeues


@pytest.mark.parametrize(("order", "strategy"), [("strict", "StrictFIFO"), ("bestEffort", "BestEffortFIFO")])
def test_the_stack_chooses_the_queueing_strategy(order: str, strategy: str) -> None:
    spec = only(deployed(asked(queueOrder=order)), "ClusterQueue", "default")["spec"]
    assert spec["queueingStrategy"] == strategy
    assert spec["preemption"] == {"withinClusterQueue": "Never", "reclaimWithinCohort": "Never"}


def test_the_queue_uses_nothing_that_is_broken_in_its_version(stack: Deployment) -> None:
    """Each assertion corresponds to a row of the table in docs/guides/upgrade.md.

    Upgrade Kueue before you use one of these features.
    """
    text = only(stack, "ConfigMap", "kueue-manager-config")["data"]["controller_manager_config.yaml"]
    configuration, queue = yaml.safe_load(text), only(stack, "ClusterQueue", "default")["spec"]
    assert not any("topologyName" in flavor["spec"] for flavor in objects(stack, "ResourceFlavor"))
    assert configuration["featureGates"]["TopologyAwareScheduling"] is False
    assert not {"flavorFungibility", "cohortName", "fairSharing", "admissionChecksStrategy"} & set(queue)
    assert set(queue["preemption"].values()) == {"Never"}
    assert not {"fairSharing", "admissionFairSharing", "multiKueue"} & set(configuration)
    assert queue["queueingStrategy"] == "StrictFIFO"


def test_the_queue_s_webhooks_apply_only_to_job_namespaces(stack: Deployment) -> None:
    for configuration in objects(stack, "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        assert configuration["metadata"]["name"].startswith("kueue-")
        for webhook in configuration["webhooks"]:
            assert webhook["clientConfig"]["service"]["name"] == "kueue-webhook-service"
            of_kueue = webhook["rules"][0]["apiGroups"] == ["kueue.x-k8s.io"]
            assert of_kueue or webhook["namespaceSelector"] == {"matchLabels": {"gpumpi.io/jobs": "true"}}


def test_the_queue_has_permissions_only_for_kinds_that_it_manages(stack: Deployment) -> None:
    groups = {group for rule in only(stack, "ClusterRole", "kueue-manager-role")["rules"] for group in rule["apiGroups"]}
    assert {"kueue.x-k8s.io", "kubeflow.org", "batch", "apps"} <= groups
    assert not {"leaderworkerset.x-k8s.io", "workload.codeflare.dev"} & groups


def test_quantities_are_formatted_as_kueue_stores_them() -> None:
    assert [admission.cpu(millis) for millis in (0, 500, 2000, 2500)] == ["0", "500m", "2", "2500m"]
    assert [admission.memory(mib) for mib in (0, 512, 1024, 1536, 2 * 1024**2)] == ["0", "512Mi", "1Gi", "1536Mi", "2Ti"]
