"""Job namespaces, and the shared volume in each of them."""

import pytest

from tests.program.engine import Deployment
from tests.program.platform_world import (
    deploy_default_platform,
    deploy_platform,
    find_object,
    list_manifests,
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
