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
    Manifest,
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
    (outside,) = [rule for rule in spec["egress"] if "ipBlock" in rule["to"][0]]
    assert outside["to"] == [{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["169.254.169.254/32"]}}]


@pytest.mark.parametrize("protocol", ["TCP", "UDP"])
@pytest.mark.parametrize(
    ("number", "reachable"), [(1, True), (443, True), (2048, True), (2049, False), (2050, True), (65535, True)]
)
def test_job_pods_reach_every_port_outside_except_that_of_nfs_servers(
    stack: Deployment, protocol: str, number: int, reachable: bool
) -> None:
    """An NFS client in a pod could choose its user and directory."""
    rules = find_object(stack, "NetworkPolicy", "jobs-among-themselves")["spec"]["egress"]
    (ports,) = [rule["ports"] for rule in rules if "ipBlock" in rule["to"][0]]
    ranges = [(port["port"], port["endPort"]) for port in ports if port["protocol"] == protocol]
    assert any(first <= number <= last for first, last in ranges) is reachable


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


def list_sources(stack: Deployment, claim: str) -> dict[str, Manifest]:
    """Return the specs of the volumes with this claim, by namespace."""
    specs = [volume["spec"] for volume in list_manifests(stack, "PersistentVolume")]
    return {spec["claimRef"]["namespace"]: spec for spec in specs if spec["claimRef"]["name"] == claim}


def test_the_shared_volume_uses_the_access_point_of_its_namespace_and_is_read_write_many() -> None:
    stack = deploy_platform(make_settings(namespaces=["research", "vision"]))
    file_system, points = stack.outputs["fileSystemId"], stack.outputs["accessPointIds"]
    assert len(set(points.values())) == len(points) == 2
    for namespace in ("research", "vision"):
        manifest = find_object(stack, "PersistentVolume", f"gpumpi-test-{namespace}-shared")
        volume, claim = manifest["spec"], find_object(stack, "PersistentVolumeClaim", "shared", namespace)["spec"]
        assert volume["csi"] == {"driver": "efs.csi.aws.com", "volumeHandle": f"{file_system}::{points[namespace]}"}
        assert volume["accessModes"] == claim["accessModes"] == ["ReadWriteMany"]
        assert volume["persistentVolumeReclaimPolicy"] == "Retain", "deleting the claim must keep the data"
        assert (claim["selector"], claim["storageClassName"]) == ({"matchLabels": manifest["metadata"]["labels"]}, "")
        assert "volumeName" not in claim, "with volumeName, binding can take up to 15 s longer, until the binder's next sync"
        reserved = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": "shared"}
        assert volume["claimRef"] == reserved


LINKED = {"path": "s3://sets/imagenet"}


def test_a_lustre_volume_contains_only_the_directory_of_its_namespace() -> None:
    stack = deploy_platform(make_settings(storage={"efs": "none", "fsx": {}}, namespaces=["research", "vision"]))
    mounted = {name: spec["csi"]["volumeAttributes"]["mountname"] for name, spec in list_sources(stack, "fsx").items()}
    name = stack.outputs["lustreMountName"]
    assert mounted == {space: f"{name}/gpumpi-jobs-{space}" for space in ("research", "vision")}


def read_directory_script(stack: Deployment) -> str:
    (job,) = list_manifests(stack, "Job")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    return str(container["command"][-1])


def test_the_directories_of_a_lustre_file_system_exist_before_pods_mount_them() -> None:
    stack = deploy_platform(make_settings(storage={"efs": "none", "fsx": {"dataRepository": LINKED}}, namespaces=["research"]))
    assert read_directory_script(stack).splitlines() == [
        "set -eu",
        "mkdir -p -m 0770 /mnt/gpumpi-jobs-research",
        "chown 1000:1000 /mnt/gpumpi-jobs-research /mnt/data",
        "[ -e /mnt/data ] || { mkdir -p -m 0755 /mnt/data && chown 1000:1000 /mnt/data; }",
    ]
    (job,) = [resource for resource in stack.resources if resource.type == "kubernetes:batch/v1:Job"]
    volumes = [resource for resource in stack.resources if resource.name.endswith("fsx-volume-research-volume")]
    assert len(volumes) == 1 and all(job.name in stack.list_dependency_names(volume) for volume in volumes)


def test_the_linked_directory_is_read_only_except_for_its_writers() -> None:
    shared = {"path": "/data", "writableBy": ["research"]}
    fsx = {"dataRepository": LINKED, "sharedData": shared}
    stack = deploy_platform(make_settings(storage={"efs": "none", "fsx": fsx}, namespaces=["research", "vision"]))
    specs = list_sources(stack, "fsx-data")
    assert {name: spec["mountOptions"] for name, spec in specs.items()} == {"research": ["flock"], "vision": ["flock", "ro"]}
    assert {spec["csi"]["volumeAttributes"]["mountname"] for spec in specs.values()} == {
        f"{stack.outputs['lustreMountName']}/data"
    }
    described = {
        space.name: [(volume.claim, volume.mount_path, volume.read_only) for volume in space.volumes]
        for space in read_description(stack).namespaces
    }
    assert described == {
        "research": [("fsx", "/fsx", False), ("fsx-data", "/data", False)],
        "vision": [("fsx", "/fsx", False), ("fsx-data", "/data", True)],
    }


def test_the_linked_directory_is_read_only_below_the_mount_path_by_default() -> None:
    stack = deploy_platform(make_settings(storage={"efs": "none", "fsx": {"dataRepository": LINKED}}))
    (space,) = read_description(stack).namespaces
    assert [(volume.mount_path, volume.read_only) for volume in space.volumes] == [("/fsx", False), ("/fsx/data", True)]


def test_shared_data_on_efs_is_mounted_read_only_except_by_its_writers() -> None:
    efs = {"sharedData": {"path": "/data-sets", "writableBy": ["vision"]}}
    stack = deploy_platform(make_settings(storage={"efs": efs}, namespaces=["research", "vision", "audio"]))
    specs = list_sources(stack, "shared-data")
    assert {name: spec.get("mountOptions", []) for name, spec in specs.items()} == {
        **{"research": ["ro"], "vision": []},
        "audio": ["ro"],
    }
    handles = {name: spec["csi"]["volumeHandle"] for name, spec in specs.items()}
    assert handles["research"] == handles["audio"] != handles["vision"]


def test_each_namespace_claims_volumes_only_from_its_own_storage_class() -> None:
    stack = deploy_platform(make_settings(namespaces=["research", "vision"]))
    classes = {each["metadata"]["name"]: each["parameters"] for each in list_manifests(stack, "StorageClass")}
    assert set(classes) == {"efs-research", "efs-vision"}
    for key in ("uid", "gid", "basePath"):
        assert len({parameters[key] for parameters in classes.values()}) == 2, key
    for namespace, foreign in (("research", "vision"), ("vision", "research")):
        quota = find_object(stack, "ResourceQuota", "no-foreign-storage-class", namespace)["spec"]["hard"]
        assert quota == {f"efs-{foreign}.storageclass.storage.k8s.io/persistentvolumeclaims": "0"}


def test_a_reserved_volume_is_recreated_with_its_namespace(stack: Deployment) -> None:
    """Kubernetes never binds a retained volume to a new claim, so a new namespace UID triggers the volume's
    replacement.
    """
    (volume,) = [resource for resource in stack.resources if resource.type == "kubernetes:core/v1:PersistentVolume"]
    assert volume.has_replacement_trigger and volume.delete_before_replace
