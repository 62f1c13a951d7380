"""Resources that the program creates in an existing cluster, without using AWS."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import boto3.session
import pytest
import yaml
from pulumi.runtime.config import set_all_config

from cli.stacks.settings import list_settings
from infra import program
from infra.config.stopping import Stopped
from infra.naming import Taint
from infra.settings.existing import ExistingSettings
from tests.program.engine import Deployment
from tests.program.existing_world import LEAST, POOL, RACK, deploy_existing_target, make_cluster_facts, make_node
from tests.program.platform_world import find_object, list_kubernetes_resources, list_manifests, read_description, read_quotas

JOB = {"name": "ring", "pool": "rack1", "workers": 2, "image": "registry.example.com/team/openmpi:5", "command": ["x"]}
NFS = {"kind": "nfs", "server": "10.0.0.5", "path": "/export/jobs"}
CLASS = {"kind": "storage-class", "name": "cephfs"}
BASE: Mapping[str, Any] = {**LEAST, "storage": NFS, "jobs": [JOB]}
QUEUE, DESCRIPTION = "queue-cluster-queue", "description-description"
PLUGIN, OPERATOR = "nvidia-device-plugin-daemonset-nvidia-device-plugin-daemonset", "mpi-operator-deployment-mpi-operator"
CONTROLLER = "queue-controller"


@pytest.fixture(autouse=True)
def forbid_aws_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail if the program creates an AWS client."""

    def fail_on_client(*_: object, **__: object) -> None:
        raise AssertionError("the program created an AWS client")

    monkeypatch.setattr(boto3.session, "Session", fail_on_client)
    monkeypatch.delenv("KUBECONFIG", raising=False)


@pytest.fixture
def deployment() -> Deployment:
    return deploy_default()


@cache
def deploy_default() -> Deployment:
    return deploy_existing_target(BASE)


def test_a_stack_for_an_existing_cluster_creates_no_aws_resource(deployment: Deployment) -> None:
    assert {resource.type.split(":")[0] for resource in deployment.resources} == {"pulumi", "kubernetes", "gpumpi"}
    assert all("aws" not in resource.provider for resource in deployment.resources)


def test_every_object_is_created_in_the_cluster_of_the_kubeconfig(deployment: Deployment) -> None:
    (provider,) = deployment.find_resources("pulumi:providers:kubernetes")
    assert provider.inputs["context"] == "admin" and provider.inputs["kubeconfig"].endswith(".kube/config")
    assert list_kubernetes_resources(deployment) and all(
        provider.urn in resource.provider for resource in list_kubernetes_resources(deployment)
    )


def test_the_state_contains_no_secret_of_the_kubeconfig(deployment: Deployment) -> None:
    assert deployment.secret_outputs == frozenset()
    assert deployment.outputs["connect"]["kubectl"].endswith("--context admin")


def test_the_device_plugin_runs_on_pool_nodes_without_extra_labels(deployment: Deployment) -> None:
    pod = find_object(deployment, "DaemonSet", "nvidia-device-plugin-daemonset")["spec"]["template"]["spec"]
    (term,) = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": "example.com/rack", "operator": "In", "values": ["1"]}]
    assert "nodeSelector" not in pod


def test_operators_run_on_any_node_or_only_on_the_selected_nodes() -> None:
    ops = {"role": "ops"}
    facts = make_cluster_facts(make_node("gpu1"), make_node("gpu2"), make_node("ops1", ops))
    there = deploy_existing_target({**LEAST, "target": {"kind": "existing", "system": {"nodeSelector": ops}}}, facts)
    selectors = [deployment["spec"]["template"]["spec"]["nodeSelector"] for deployment in list_manifests(there, "Deployment")]
    assert selectors == [ops, ops, ops] and read_description(there).pools[0].max_size == 1


def test_the_queue_quota_equals_the_pool_capacity(deployment: Deployment) -> None:
    quota = read_quotas(deployment)
    assert (quota["rack1"]["nvidia.com/gpu"], quota["system"]["nvidia.com/gpu"]) == ("16", "0")
    assert find_object(deployment, "ResourceFlavor", "rack1")["spec"]["nodeLabels"] == dict(RACK)
    assert "nodeLabels" not in find_object(deployment, "ResourceFlavor", "system")["spec"]


def test_jobs_tolerate_the_taints_of_the_nodes_in_their_pool() -> None:
    taint = Taint("example.com/reserved", "mpi")
    there = deploy_existing_target(BASE, make_cluster_facts(make_node("gpu1", taints=(taint,)), make_node("gpu2")))
    worker = find_object(there, "MPIJob", "ring")["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]
    assert {"key": "example.com/reserved", "operator": "Exists", "effect": "NoSchedule"} in worker["tolerations"]
    assert worker["nodeSelector"] == dict(RACK)


def test_an_nfs_export_becomes_a_volume_in_every_namespace() -> None:
    there = deploy_existing_target({**BASE, "platform": {"namespaces": ["mpi-jobs", "vision"]}})
    volumes = list_manifests(there, "PersistentVolume")
    assert [volume["spec"]["nfs"] for volume in volumes] == [{"server": "10.0.0.5", "path": "/export/jobs"}] * 2
    assert {claim["metadata"]["namespace"] for claim in list_manifests(there, "PersistentVolumeClaim")} == {"mpi-jobs", "vision"}
    assert [namespace.volumes[0].mount_path for namespace in read_description(there).namespaces] == ["/shared"] * 2


def test_the_volume_is_provisioned_by_the_configured_storage_class() -> None:
    there = deploy_existing_target({**BASE, "storage": CLASS})
    claim = find_object(there, "PersistentVolumeClaim", "shared")["spec"]
    assert (claim["storageClassName"], claim["accessModes"], claim["resources"]["requests"]["storage"]) == (
        "cephfs",
        ["ReadWriteMany"],
        "100Gi",
    )
    assert list_manifests(there, "PersistentVolume") == [] and list_manifests(there, "StorageClass") == []


def test_jobs_have_no_shared_volume_without_storage() -> None:
    there = deploy_existing_target(LEAST)
    assert list_manifests(there, "PersistentVolumeClaim") == [] and read_description(there).namespaces[0].volumes == ()


def test_up_fails_at_once_with_a_clear_message_if_the_cluster_is_unreachable() -> None:
    set_all_config({"gpumpi:target": '{"kind": "existing", "kubeconfig": {"path": "/nonexistent/admin.conf"}}'})
    try:
        with pytest.raises(Stopped, match=r"/nonexistent/admin\.conf does not exist"):
            program.run_program()
    finally:
        set_all_config({})


def test_monitoring_has_no_alerts_for_components_that_only_eks_has() -> None:
    facts = make_cluster_facts(*(make_node(name, gpus=8, rdma={"rdma/ib": 8}) for name in ("gpu1", "gpu2")))
    stack = deploy_existing_target({**BASE, "platform": {"monitoring": True}}, facts)
    (files,) = [
        resource.inputs["data"]
        for resource in stack.resources
        if resource.type.endswith(":ConfigMap") and "prometheus.yml" in resource.inputs["data"]
    ]
    scraped = {scrape["job_name"]: scrape for scrape in yaml.safe_load(files["prometheus.yml"])["scrape_configs"]}
    assert set(scraped) == {"prometheus", "alertmanager", "kube-state-metrics", "node-exporter", "kueue", "kubelet"}
    assert scraped["kubelet"]["tls_config"] == {"insecure_skip_verify": True}, "kubelets sign their certificates themselves"
    assert "EfsCsiDriverDown" not in files["rules.yml"] and "ClusterAutoscalerDown" not in files["rules.yml"]


# --- effect of changing each setting


CHANGES: dict[str, tuple[Mapping[str, Any], set[str]]] = {
    "target.kubeconfig.path": (
        {"target": {"kind": "existing", "kubeconfig": {"path": "/etc/kubernetes/admin.conf"}}},
        {"platform-kubernetes"},
    ),
    "storage.server": ({"storage": {**NFS, "server": "nas"}}, {"shared-volume-mpi-jobs-volume"}),
    "storage.path": ({"storage": {**NFS, "path": "/other"}}, {"shared-volume-mpi-jobs-volume"}),
    "storage.mountPath": ({"storage": {**NFS, "mountPath": "/data"}}, {DESCRIPTION, "jobs-mpijob-ring"}),
    "storage": (
        {"storage": {"kind": "none"}},
        {
            "shared-volume",
            "shared-volume-mpi-jobs-volume",
            "shared-volume-mpi-jobs-claim",
            DESCRIPTION,
            "jobs-mpijob-ring",
        },
    ),
    "pools[].gpusPerNode": (
        {"pools": [{**POOL, "gpusPerNode": 4}]},
        {DESCRIPTION, QUEUE, "jobs-mpijob-ring", "job-controller-deployment"},
    ),
    "pools[].rdmaResource": (  # has no effect while platform.transport is tcp
        {"pools": [{**POOL, "rdmaResource": "rdma/ib"}]},
        set(),
    ),
    "platform.transport": (
        {"pools": [{**POOL, "rdmaResource": "rdma/ib"}], "platform": {"transport": "infiniband"}},
        {DESCRIPTION, QUEUE, "jobs-mpijob-ring"},
    ),
    "platform.nodeHealing": (
        {"platform": {"nodeHealing": False}},
        {"job-controller-deployment", "job-controller-nodes", "job-controller-own-lease"},
    ),
    "platform.startAttempts": ({"platform": {"startAttempts": 0}}, {"queue-configuration", "queue-controller"}),
    "platform.queueOrder": (
        {"platform": {"queueOrder": "bestEffort"}},
        {QUEUE, "queue-configuration", "queue-controller"},
    ),
    "platform.namespaces[].podSecurity": (
        {"platform": {"namespaces": [{"name": "mpi-jobs", "podSecurity": "baseline"}]}},
        {DESCRIPTION, "namespaces-mpi-jobs"},
    ),
    "platform.devicePlugin": ({"platform": {"devicePlugin": False}}, {"nvidia-device-plugin", PLUGIN}),
    "platform.imageRepository": ({"platform": {"imageRepository": "registry.example.com/team"}}, {DESCRIPTION}),
    "platform.imagePullSecrets": ({"platform": {"imagePullSecrets": ["login"]}}, {DESCRIPTION, "jobs-mpijob-ring"}),
    "platform.manifestMirror": ({"platform": {"manifestMirror": "/srv/mirror"}}, set()),
    "jobs": ({"jobs": []}, {"jobs", "jobs-mpijob-ring"}),
}


def find_differences(before: Deployment, after: Deployment) -> set[str]:
    """Return the names of created, deleted and changed resources, without the cluster name as prefix."""

    def group_by_name(stack: Deployment) -> dict[str, dict[str, str]]:
        """Return a mapping from names to types to inputs. Names alone are not unique: a role and its binding have the
        same name."""
        inputs_by_name: dict[str, dict[str, str]] = {}
        for resource in stack.resources:
            inputs_by_name.setdefault(resource.name.removeprefix("gpumpi-test-"), {})[resource.type] = repr(resource.inputs)
        return inputs_by_name

    old, new = group_by_name(before), group_by_name(after)
    return {name for name in {*old, *new} if old.get(name) != new.get(name)}


@pytest.mark.parametrize("setting", CHANGES)
def test_a_setting_changes_only_the_resources_that_depend_on_it(setting: str, deployment: Deployment) -> None:
    values, touched = CHANGES[setting]
    facts = make_cluster_facts(*(make_node(name, gpus=8, rdma={"rdma/ib": 8}) for name in ("gpu1", "gpu2")))
    assert find_differences(deployment, deploy_existing_target({**BASE, **values}, facts)) == touched


TRIED_ELSEWHERE = {
    *("target.kind", "target.kubeconfig.context", "target.system.nodeSelector", "storage.name", "storage.size"),
    *("pools", "pools[].name", "pools[].nodeSelector", "pools[].nodes"),
    *(
        "platform.mpiOperator",
        "platform.trainer",
        "platform.queue",
        "platform.namespaces",
        "platform.namespaces[].name",
        "platform.imageRegistry",
        "platform.cpuRequestFactor",
        *("platform.monitoring", "platform.remoteWrite", "platform.remoteWriteLogin", "platform.alertReceiver"),
    ),
}
"""Settings tested above, and platform settings that tests/stacks/test_platform_changes.py tests for all targets."""


def test_every_setting_is_changed_by_a_test() -> None:
    assert set(CHANGES) | TRIED_ELSEWHERE == {row.path for row in list_settings(ExistingSettings)}
