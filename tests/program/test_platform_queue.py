"""Job queue: flavors, quotas and webhooks."""

from collections import Counter

import pytest
import yaml

from infra.jobs.cluster import ClusterDescription, PoolDescription, TaintDescription
from infra.jobs.model import Job
from infra.jobs.sizing import parse_bytes, parse_millicores
from infra.plan.node_capacity import compute_allocatable
from infra.platform import admission
from infra.platform.cluster_autoscaler import NODE_MINUTES
from tests.program.engine import Deployment
from tests.program.platform_world import (
    deploy_default_platform,
    deploy_platform,
    find_object,
    list_manifests,
    make_settings,
    read_description,
    read_quotas,
)
from tests.pure.world import instance_type


@pytest.fixture
def stack() -> Deployment:
    return deploy_default_platform()


def test_every_pool_has_a_resource_flavor_with_its_label_and_taints(stack: Deployment) -> None:
    flavors = {flavor["metadata"]["name"]: flavor["spec"] for flavor in list_manifests(stack, "ResourceFlavor")}
    assert set(flavors) == {"system", "train", "single"} == set(read_quotas(stack))
    groups = {
        pool.inputs["labels"]["gpumpi.io/pool"]: pool.inputs for pool in stack.find_resources("aws:eks/nodeGroup:NodeGroup")
    }
    for name, flavor in flavors.items():
        assert flavor["nodeLabels"] == {"gpumpi.io/pool": name}
        taints = [(taint["key"], taint["value"]) for taint in groups[name].get("taints") or []]
        assert [(taint["key"], taint["value"]) for taint in flavor.get("nodeTaints", [])] == taints


def test_queue_quotas_equal_the_capacity_of_pools_at_maximum_size(stack: Deployment) -> None:
    p4d = compute_allocatable(instance_type("p4d.24xlarge"), huge_pages_mib=10256)
    train = read_quotas(stack)["train"]
    assert (train["nvidia.com/gpu"], train["vpc.amazonaws.com/efa"]) == ("32", "16")
    assert parse_bytes(train["hugepages-2Mi"]) == 4 * 10256 * 1024**2
    assert parse_bytes(train["memory"]) == 4 * p4d.memory_mib * 1024**2
    assert parse_millicores(train["cpu"]) == 4 * p4d.cpu_millis
    assert read_quotas(stack)["single"]["vpc.amazonaws.com/efa"] == read_quotas(stack)["system"]["nvidia.com/gpu"] == "0"


def test_cpu_quotas_are_reduced_by_the_cpu_request_factor() -> None:
    small, full = read_quotas(deploy_platform(make_settings(cpuRequestFactor=0.5))), read_quotas(deploy_default_platform())
    assert parse_millicores(small["train"]["cpu"]) == parse_millicores(full["train"]["cpu"]) // 2
    assert small["train"]["memory"] == full["train"]["memory"]


@pytest.mark.parametrize("launcher", ["mpijob", "torchrun", "standalone"])
def test_the_largest_job_of_a_pool_fits_its_quota(stack: Deployment, launcher: str) -> None:
    """Every resource that the job's pods request has a sufficient quota; otherwise the job would wait forever."""
    total = sum_requests(read_description(stack), launcher, workers=4)
    train, system = read_quotas(stack)["train"], read_quotas(stack)["system"]
    for resource, amount in total["train"].items():
        assert amount <= parse_bytes(train[resource]) if resource != "cpu" else amount <= parse_millicores(train["cpu"]), resource
    for resource, amount in total.get("system", {}).items():
        assert amount <= parse_bytes(system[resource]) if resource != "cpu" else amount <= parse_millicores(system["cpu"]), (
            resource
        )


def sum_requests(cluster: ClusterDescription, launcher: str, workers: int) -> dict[str, Counter[str]]:
    """Return the total resource requests in each pool, for a job whose workers use whole nodes of `train`."""
    from infra.jobs.placed import KeyPair
    from infra.jobs.render import place_job, render_job

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
    for piece in render_job(place_job(job, cluster), lambda: KeyPair("private", "public")):
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
                    amounts[resource] += times * (parse_millicores(str(text)) if resource == "cpu" else parse_bytes(str(text)))
    return requests_by_pool


def test_the_pods_ready_timeout_of_the_queue_exceeds_the_node_start_time(stack: Deployment) -> None:
    text = find_object(stack, "ConfigMap", "kueue-manager-config")["data"]["controller_manager_config.yaml"]
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


def test_jobs_of_other_operators_are_gang_scheduled_once_their_kind_exists(stack: Deployment) -> None:
    text = find_object(stack, "ConfigMap", "kueue-manager-config")["data"]["controller_manager_config.yaml"]
    assert yaml.safe_load(text)["integrations"]["frameworks"] == [
        *("batch/job", "pod", "statefulset", "kubeflow.org/mpijob"),
        *FOREIGN,
    ]
    rules = find_object(stack, "ClusterRole", "kueue-manager-role")["rules"]
    permitted = {(group, kind) for rule in rules for group in rule["apiGroups"] for kind in rule["resources"]}
    checked = {
        (rule["apiGroups"][0], rule["resources"][0])
        for configuration in list_manifests(stack, "MutatingWebhookConfiguration")
        for webhook in configuration["webhooks"]
        for rule in webhook["rules"]
    }
    assert set(FOREIGN.values()) <= permitted & checked


def test_the_queue_ignores_mpi_jobs_without_the_mpi_operator() -> None:
    configuration = admission.build_kueue_config(mpi_jobs=False, start_attempts=3, strict=True)
    assert "kubeflow.org/mpijob" not in configuration["integrations"]["frameworks"]


def test_gpu_jobs_tolerate_the_gpu_taint_and_other_jobs_try_other_pools_first(stack: Deployment) -> None:
    toleration = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    tolerations = {
        flavor["metadata"]["name"]: flavor["spec"].get("tolerations") for flavor in list_manifests(stack, "ResourceFlavor")
    }
    assert tolerations == {"train": [toleration], "single": [toleration], "system": None}
    (group,) = find_object(stack, "ClusterQueue", "default")["spec"]["resourceGroups"]
    assert [flavor["name"] for flavor in group["flavors"]] == ["system", "train", "single"]


def test_the_queue_tolerates_only_taints_with_the_name_of_a_pool_resource() -> None:
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
    assert admission.build_flavor(pool)["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    ]


@pytest.mark.parametrize(("order", "gate"), [("strict", False), ("bestEffort", None)])
def test_a_strict_queue_tries_all_flavors_of_a_waiting_job_from_the_first(order: str, gate: bool | None) -> None:
    text = find_object(deploy_platform(make_settings(queueOrder=order)), "ConfigMap", "kueue-manager-config")["data"][
        "controller_manager_config.yaml"
    ]
    assert yaml.safe_load(text)["featureGates"].get("FlavorFungibility") is gate


@pytest.mark.parametrize(("attempts", "requeues"), [(None, 9), (1, 0), (0, None)])
def test_the_queue_stops_a_job_that_cannot_start_after_the_configured_attempts(
    attempts: int | None, requeues: int | None
) -> None:
    chosen = {} if attempts is None else {"startAttempts": attempts}
    text = find_object(deploy_platform(make_settings(**chosen)), "ConfigMap", "kueue-manager-config")["data"][
        "controller_manager_config.yaml"
    ]
    assert yaml.safe_load(text)["waitForPodsReady"]["requeuingStrategy"].get("backoffLimitCount") == requeues


@pytest.mark.parametrize(("order", "strategy"), [("strict", "StrictFIFO"), ("bestEffort", "BestEffortFIFO")])
def test_the_queueing_strategy_can_be_configured(order: str, strategy: str) -> None:
    spec = find_object(deploy_platform(make_settings(queueOrder=order)), "ClusterQueue", "default")["spec"]
    assert spec["queueingStrategy"] == strategy
    assert spec["preemption"] == {"withinClusterQueue": "Never", "reclaimWithinCohort": "Never"}


def test_the_queue_uses_no_feature_that_is_broken_in_its_version(stack: Deployment) -> None:
    """Each assertion corresponds to a row of the table in docs/guides/upgrade.md.

    Upgrade Kueue before you use one of these features.
    """
    text = find_object(stack, "ConfigMap", "kueue-manager-config")["data"]["controller_manager_config.yaml"]
    configuration, queue = yaml.safe_load(text), find_object(stack, "ClusterQueue", "default")["spec"]
    assert not any("topologyName" in flavor["spec"] for flavor in list_manifests(stack, "ResourceFlavor"))
    assert configuration["featureGates"]["TopologyAwareScheduling"] is False
    assert not {"flavorFungibility", "cohortName", "fairSharing", "admissionChecksStrategy"} & set(queue)
    assert set(queue["preemption"].values()) == {"Never"}
    assert not {"fairSharing", "admissionFairSharing", "multiKueue"} & set(configuration)
    assert queue["queueingStrategy"] == "StrictFIFO"


def test_queue_webhooks_apply_only_to_job_namespaces(stack: Deployment) -> None:
    for configuration in list_manifests(stack, "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        assert configuration["metadata"]["name"].startswith("kueue-")
        for webhook in configuration["webhooks"]:
            assert webhook["clientConfig"]["service"]["name"] == "kueue-webhook-service"
            of_kueue = webhook["rules"][0]["apiGroups"] == ["kueue.x-k8s.io"]
            assert of_kueue or webhook["namespaceSelector"] == {"matchLabels": {"gpumpi.io/jobs": "true"}}


def test_the_queue_has_permissions_only_for_kinds_it_manages(stack: Deployment) -> None:
    groups = {group for rule in find_object(stack, "ClusterRole", "kueue-manager-role")["rules"] for group in rule["apiGroups"]}
    assert {"kueue.x-k8s.io", "kubeflow.org", "batch", "apps"} <= groups
    assert not {"leaderworkerset.x-k8s.io", "workload.codeflare.dev"} & groups


def test_quantities_are_formatted_like_those_stored_by_kueue() -> None:
    assert [admission.format_cpu(millis) for millis in (0, 500, 2000, 2500)] == ["0", "500m", "2", "2500m"]
    assert [admission.format_memory(mib) for mib in (0, 512, 1024, 1536, 2 * 1024**2)] == ["0", "512Mi", "1Gi", "1536Mi", "2Ti"]
