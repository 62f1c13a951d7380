"""Job namespaces, and the shared volume in each of them."""

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
import yaml

from localcloud.kubernetes.access.policies import RULES
from tests.program.engine import Deployment
from tests.program.platform_world import (
    deploy_default_platform,
    deploy_platform,
    find_object,
    list_manifests,
    list_pod_specs,
    make_settings,
    read_description,
)


@pytest.fixture
def stack() -> Deployment:
    return deploy_default_platform()


def test_each_job_namespace_has_everything_a_job_needs() -> None:
    stack = deploy_platform(make_settings(namespaces=["research", "vision"]))
    for name in ("research", "vision"):
        for kind, called in [
            ("ServiceAccount", "mpi-job"),
            ("LimitRange", "small-by-default"),
            ("ResourceQuota", "objects"),
            ("ResourceQuota", "no-system-priority"),
            ("NetworkPolicy", "jobs-among-themselves"),
            ("LocalQueue", "default"),
            ("PersistentVolumeClaim", "shared"),
        ]:
            find_object(stack, kind, called, name)
        assert find_object(stack, "ConfigMap", "gpumpi-key-bucket", name)["data"] == {"bucket": stack.outputs["keyBucket"]}
        assert find_object(stack, "Namespace", name)["metadata"]["labels"]["gpumpi.io/jobs"] == "true"
        association = stack.find_resource("aws:eks/podIdentityAssociation:PodIdentityAssociation", f"{name}-job").inputs
        assert (association["namespace"], association["serviceAccount"]) == (name, "mpi-job")


def test_a_job_namespace_enforces_its_pod_security_level_and_warns_about_restricted() -> None:
    stack = deploy_platform(make_settings(namespaces=["research", {"name": "open", "podSecurity": "baseline"}]))
    levels = {
        name: find_object(stack, "Namespace", name)["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
        for name in ("research", "open")
    }
    assert levels == {"research": "restricted", "open": "baseline"}
    labels = find_object(stack, "Namespace", "open")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/warn"] == "restricted"
    assert [(namespace.name, namespace.pod_security) for namespace in read_description(stack).namespaces] == [*levels.items()]


def test_job_pods_reach_each_other_and_the_internet_but_accept_no_other_ingress(stack: Deployment) -> None:
    spec = find_object(stack, "NetworkPolicy", "jobs-among-themselves")["spec"]
    assert spec["podSelector"] == {} and set(spec["policyTypes"]) == {"Ingress", "Egress"}
    assert spec["ingress"] == [{"from": [{"podSelector": {}}]}]
    assert {"to": [{"podSelector": {}}]} in spec["egress"]
    assert {"to": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["169.254.169.254/32"]}}]} in spec["egress"]


def test_the_limit_range_sets_small_default_requests_and_no_maximum(stack: Deployment) -> None:
    (limit,) = find_object(stack, "LimitRange", "small-by-default")["spec"]["limits"]
    assert limit == {"type": "Container", "defaultRequest": {"cpu": "100m", "memory": "256Mi"}}


# --- quotas

RECORDS_MEASURED = 10_000
"""Number of records in one namespace, for which docs/measurements/kubernetes.md gives the job controller's memory."""
LARGE_JOBS, LARGE_JOB_PODS = 10, 1001
"""Ten jobs with 1,000 ranks, one per pod, and a launcher each."""


def read_object_quota(stack: Deployment, namespace: str = "mpi-jobs") -> dict[str, int]:
    hard = find_object(stack, "ResourceQuota", "objects", namespace)["spec"]["hard"]
    return {name: int(value.replace("k", "000")) for name, value in hard.items()}


def test_the_object_quota_limits_every_built_in_kind_that_users_can_create_except_events(stack: Deployment) -> None:
    """Lost events would hide why a job does not start. The API server deletes events after an hour."""
    creatable = {
        (rule.group, resource)
        for rule in RULES["AmazonEKSAdminPolicy"]
        for resource in rule.resources
        if "create" in rule.verbs and "/" not in resource and rule.group not in ("extensions", "authorization.k8s.io")
    }
    names = [key.removeprefix("count/").partition(".") for key in read_object_quota(stack)]
    limited = {(group, name) for name, _, group in names}
    assert limited == creatable - {("", "events")}


def test_the_object_quota_holds_the_records_and_pods_of_many_large_jobs(stack: Deployment) -> None:
    quota = read_object_quota(stack)
    assert quota["count/configmaps"] >= 2 * RECORDS_MEASURED, "the quota must never keep the job controller from writing a record"
    assert quota["count/pods"] >= LARGE_JOBS * LARGE_JOB_PODS


@cache
def list_kinds_of_golden_jobs() -> dict[str, Counter[str]]:
    """Return the number of objects per kind of each job in tests/golden/jobs."""
    return {
        path.name: Counter(manifest["kind"] for manifest in yaml.safe_load_all(path.read_text(encoding="utf-8")) if manifest)
        for path in sorted((Path(__file__).parents[1] / "golden" / "jobs").glob("*.yaml"))
    }


@pytest.mark.parametrize("job", list_kinds_of_golden_jobs())
def test_a_thousand_jobs_of_any_launcher_fit_into_the_object_quota(stack: Deployment, job: str) -> None:
    limits = {key.removeprefix("count/").partition(".")[0]: limit for key, limit in read_object_quota(stack).items()}
    for kind, count in list_kinds_of_golden_jobs()[job].items():
        if kind != "MPIJob":  # a custom resource, which the quota does not count
            assert limits[f"{kind.lower()}s"] >= 1000 * count, kind


def test_pods_with_a_priority_class_of_the_system_are_refused_in_job_namespaces() -> None:
    stack = deploy_platform(make_settings(namespaces=["research", "vision"]))
    for namespace in ("research", "vision"):
        spec = find_object(stack, "ResourceQuota", "no-system-priority", namespace)["spec"]
        (term,) = spec["scopeSelector"]["matchExpressions"]
        assert spec["hard"] == {"pods": "0"} and set(spec) == {"hard", "scopeSelector"}
        assert (term["scopeName"], term["operator"]) == ("PriorityClass", "In")
        assert set(term["values"]) == {"system-node-critical", "system-cluster-critical"}


def test_no_pod_of_the_platform_in_a_job_namespace_has_a_priority_class_of_the_system() -> None:
    stack = deploy_platform(make_settings(monitoring=True, trainer=True))
    job_namespaces = {space.name for space in read_description(stack).namespaces}
    assert not [namespace for namespace, _ in list_pod_specs(stack) if namespace in job_namespaces]


def test_the_quantities_of_quotas_have_the_form_that_the_api_server_writes_back(stack: Deployment) -> None:
    for quota in list_manifests(stack, "ResourceQuota"):
        assert all(re.fullmatch(r"0|\d*[1-9]\d{0,2}k?", value) for value in quota["spec"]["hard"].values())
        assert not [value for value in quota["spec"]["hard"].values() if value != "0" and value.endswith("000")]


def test_creation_does_not_wait_until_kubernetes_has_counted_the_objects(stack: Deployment) -> None:
    """Until then, the API server does not enforce the quota."""
    for quota in list_manifests(stack, "ResourceQuota"):
        assert quota["metadata"]["annotations"] == {"pulumi.com/skipAwait": "true"}


# --- priority


def test_priority_classes_never_preempt_but_trigger_scale_up(stack: Deployment) -> None:
    classes = list_manifests(stack, "PriorityClass")
    assert {level["metadata"]["name"] for level in classes} == {"job-low", "job-normal", "job-high"}
    assert all(level["preemptionPolicy"] == "Never" and level["value"] > -10 and not level["globalDefault"] for level in classes)


# --- volume


def test_the_shared_volume_uses_the_efs_access_point_and_is_read_write_many(stack: Deployment) -> None:
    manifest = find_object(stack, "PersistentVolume", "gpumpi-test-mpi-jobs-shared")
    volume = manifest["spec"]
    claim = find_object(stack, "PersistentVolumeClaim", "shared", "mpi-jobs")["spec"]
    file_system, access_point = stack.outputs["fileSystemId"], stack.outputs["accessPointId"]
    assert volume["csi"] == {"driver": "efs.csi.aws.com", "volumeHandle": f"{file_system}::{access_point}"}
    assert volume["accessModes"] == claim["accessModes"] == ["ReadWriteMany"]
    assert volume["persistentVolumeReclaimPolicy"] == "Retain", "deleting the claim must keep the data"
    assert (claim["selector"], claim["storageClassName"]) == ({"matchLabels": manifest["metadata"]["labels"]}, "")
    assert "volumeName" not in claim, "with volumeName, binding can take up to 15 s longer, until the binder's next sync"
    assert volume["claimRef"] == {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "mpi-jobs", "name": "shared"}


def test_a_reserved_volume_is_recreated_with_its_namespace(stack: Deployment) -> None:
    """Kubernetes never binds a retained volume to a new claim, so a new namespace UID triggers the volume's
    replacement.
    """
    (volume,) = [resource for resource in stack.resources if resource.type == "kubernetes:core/v1:PersistentVolume"]
    assert volume.has_replacement_trigger and volume.delete_before_replace
