"""Kubernetes objects of the platform."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from infra.health import faults
from infra.jobs.sizing import parse_bytes, parse_millicores
from tests.program import engine
from tests.program.engine import Deployment
from tests.program.platform_world import (
    PUBLIC,
    SINGLE,
    TRAIN,
    deploy_default_platform,
    deploy_platform,
    find_object,
    list_kubernetes_resources,
    list_manifests,
    list_pod_specs,
    make_settings,
    read_description,
    read_quotas,
)
from tests.pure.world import settings

PRIVILEGED = "kube-system"


@pytest.fixture
def stack() -> Deployment:
    return deploy_default_platform()


# --- parts


def test_there_is_no_kubernetes_resource_or_provider_without_the_platform() -> None:
    bare = deploy_platform(make_settings(install=False))
    assert not [resource.type for resource in bare.resources if "kubernetes" in resource.type]
    assert bare.outputs["platform"]["installed"] is False
    assert "from a network in target.endpointAccess.privateCidrs" in bare.outputs["platform"]["how"]


@pytest.mark.parametrize(
    ("part", "component"),
    [
        ("devicePlugin", "NvidiaDevicePlugin"),
        ("efaPlugin", "EfaDevicePlugin"),
        ("mpiOperator", "MpiOperator"),
        ("queue", "Queue"),
        ("autoscaler", "ClusterAutoscaler"),
    ],
)
def test_every_platform_component_can_be_disabled_separately(stack: Deployment, part: str, component: str) -> None:
    def count_components(stack: Deployment) -> Counter[str]:
        return Counter(resource.type for resource in stack.resources if not resource.custom and "Pod" not in resource.type)

    token = f"gpumpi:infra:{component}"
    left_out = count_components(stack) - count_components(deploy_platform(make_settings(**{part: False})))
    assert left_out == Counter({token: 1})


def test_a_stack_without_efa_has_no_efa_device_plugin() -> None:
    names = [daemon_set["metadata"]["name"] for daemon_set in list_manifests(deploy_platform(make_settings(SINGLE)), "DaemonSet")]
    assert names == ["nvidia-device-plugin-daemonset"]


def test_a_stack_without_a_file_system_has_no_persistent_volume() -> None:
    bare = deploy_platform(make_settings(storage={"efs": "none"}))
    assert not list_manifests(bare, "PersistentVolume", "PersistentVolumeClaim", "StorageClass")


def test_a_private_endpoint_disables_the_platform_unless_configured_otherwise() -> None:
    assert not settings(platform={"install": None}).installs_platform
    assert settings(platform={"install": True}).installs_platform
    assert settings(target=PUBLIC, platform={"install": None}).installs_platform


def test_every_object_uses_the_provider_of_its_cluster(stack: Deployment) -> None:
    (provider,) = stack.find_resources("pulumi:providers:kubernetes")
    assert {resource.provider.rpartition("::")[0] for resource in list_kubernetes_resources(stack)} == {provider.urn}
    assert "eks" in str(provider.inputs["kubeconfig"]) and provider.inputs["enableServerSideApply"] in (True, "true")


# --- images, requests


def list_containers(stack: Deployment) -> Iterator[Any]:
    for _, pod in list_pod_specs(stack):
        yield from pod["containers"]


def test_every_image_reference_contains_a_registry_and_a_version(stack: Deployment) -> None:
    images = {container["image"] for container in list_containers(stack)}
    assert len(images) == 6
    assert all(
        re.fullmatch(r"[a-z0-9.-]+\.[a-z]+/[a-z0-9/-]+:v?\d+\.\d+\.\d+(-slim-trixie|-eksbuild\.\d+)?", image) for image in images
    ), images


def test_the_image_registry_setting_applies_to_every_image(stack: Deployment) -> None:
    mirrored = {
        container["image"]
        for container in list_containers(deploy_platform(make_settings(imageRegistry="mirror.example.com:5000/all")))
    }
    assert mirrored == {f"mirror.example.com:5000/all/{container['image']}" for container in list_containers(stack)}


def test_the_efa_device_plugin_comes_from_the_eks_registry_in_the_region(stack: Deployment) -> None:
    (container,) = find_object(stack, "DaemonSet", "aws-efa-k8s-device-plugin-daemonset")["spec"]["template"]["spec"][
        "containers"
    ]
    assert container["image"].startswith("602401143452.dkr.ecr.us-west-2.amazonaws.com/eks/aws-efa-k8s-device-plugin:")


EFA_PLUGIN = ("DaemonSet", "aws-efa-k8s-device-plugin-daemonset")


def test_the_efa_device_plugin_has_the_same_privileges_as_in_the_aws_chart(stack: Deployment) -> None:
    """Source: aws/eks-charts@5239609:stable/aws-efa-k8s-device-plugin/values.yaml and templates/daemonset.yaml"""
    pod = find_object(stack, *EFA_PLUGIN)["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "privileged": True,
        "allowPrivilegeEscalation": True,
        "runAsNonRoot": False,
        "runAsUser": 0,
    }
    assert [volume["hostPath"] for volume in pod["volumes"]] == [
        {"path": "/var/lib/kubelet/device-plugins"},
        {"path": "/dev/infiniband"},
        {"path": "/opt/aws/neuron", "type": "DirectoryOrCreate"},
    ]
    assert [mount["mountPath"] for mount in container["volumeMounts"]] == [entry["hostPath"]["path"] for entry in pod["volumes"]]
    (term,) = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": "eks.amazonaws.com/compute-type", "operator": "NotIn", "values": ["auto"]}]


def test_every_container_has_resource_requests_and_a_memory_limit(stack: Deployment) -> None:
    for container in list_containers(stack):
        assert {"cpu", "memory"} == set(container["resources"]["requests"]), container["name"]
        limits = container["resources"]["limits"]
        assert set(limits) == {"memory"}, "a CPU limit would only throttle the container"
        assert parse_bytes(limits["memory"]) >= parse_bytes(container["resources"]["requests"]["memory"])


def test_the_cpu_request_factor_reduces_cpu_requests_and_appears_in_the_outputs(stack: Deployment) -> None:
    small = deploy_platform(make_settings(cpuRequestFactor=0.1))
    full = {
        container["name"]: parse_millicores(container["resources"]["requests"]["cpu"]) for container in list_containers(stack)
    }
    shrunk = {
        container["name"]: parse_millicores(container["resources"]["requests"]["cpu"]) for container in list_containers(small)
    }
    assert shrunk == {name: max(1, round(millis * 0.1)) for name, millis in full.items()}
    assert small.outputs["platform"]["cpuRequests"] == "multiplied by 0.1: these nodes are used in place of larger ones"
    assert "cpuRequests" not in stack.outputs["platform"]


# --- security


def is_restricted(pod: Any) -> bool:
    """Return whether the pod meets Pod Security `restricted` without exceptions.

    https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
    """
    own = pod.get("securityContext", {})
    allowed = {"configMap", "secret", "emptyDir", "projected", "persistentVolumeClaim", "csi", "downwardAPI", "ephemeral"}
    return (
        not any(pod.get(key) for key in ("hostNetwork", "hostPID", "hostIPC"))
        and own.get("runAsNonRoot") is True
        and own.get("seccompProfile", {}).get("type") == "RuntimeDefault"
        and all(set(volume) - {"name"} <= allowed for volume in pod.get("volumes", []))
        and all(
            container["securityContext"].get("allowPrivilegeEscalation") is False
            and container["securityContext"].get("capabilities") == {"drop": ["ALL"]}
            and not container["securityContext"].get("privileged")
            for container in pod["containers"]
        )
    )


def test_pods_satisfy_the_restricted_policy_if_their_namespace_enforces_it(stack: Deployment) -> None:
    judged = [(namespace, is_restricted(pod)) for namespace, pod in list_pod_specs(stack) if namespace != PRIVILEGED]
    assert judged and all(fine for _, fine in judged)


def test_every_platform_namespace_enforces_the_restricted_policy(stack: Deployment) -> None:
    by_namespace = {
        namespace["metadata"]["name"]: namespace["metadata"]["labels"] for namespace in list_manifests(stack, "Namespace")
    }
    assert set(by_namespace) == {"gpumpi-system", "kueue-system", "mpi-jobs", "mpi-operator"}
    for labels in by_namespace.values():
        assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
        assert labels["pod-security.kubernetes.io/enforce-version"] == "v1.35"


def test_node_agents_have_a_separate_namespace_and_few_permissions(stack: Deployment) -> None:
    agents = list_manifests(stack, "DaemonSet")
    assert {agent["metadata"]["namespace"] for agent in agents} == {PRIVILEGED}
    assert_few_permissions(find_object(stack, "DaemonSet", "nvidia-device-plugin-daemonset"))


def test_the_device_plugin_ignores_xid_errors_caused_by_applications(stack: Deployment) -> None:
    (container,) = find_object(stack, "DaemonSet", "nvidia-device-plugin-daemonset")["spec"]["template"]["spec"]["containers"]
    assert {"name": "DP_DISABLE_HEALTHCHECKS", "value": "13,31,43,45,94"} in container["env"]


def test_the_nvidia_device_plugin_adds_no_infiniband_devices_to_containers(stack: Deployment) -> None:
    (container,) = find_object(stack, "DaemonSet", "nvidia-device-plugin-daemonset")["spec"]["template"]["spec"]["containers"]
    assert {"name": "MOFED_ENABLED", "value": "false"} in container["env"]


def assert_few_permissions(agent: Any) -> None:
    pod = agent["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["automountServiceAccountToken"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert not container["securityContext"].get("privileged")
    assert {volume["hostPath"]["path"] for volume in pod["volumes"]} <= {"/var/lib/kubelet/device-plugins", "/dev/infiniband"}


def test_the_job_controller_can_only_cordon_nodes_and_write_its_journal_outside_job_namespaces(
    stack: Deployment,
) -> None:
    (nodes,) = find_object(stack, "ClusterRole", "gpumpi-job-controller")["rules"]
    assert (nodes["resources"], nodes["verbs"]) == (["nodes"], ["get", "list", "watch", "patch"])
    own = find_object(stack, "Role", "gpumpi-job-controller", "gpumpi-system")["rules"]
    assert [(rule["resources"], rule["verbs"], rule.get("resourceNames")) for rule in own] == [
        (["leases"], ["create"], None),
        (["leases"], ["get", "update"], ["gpumpi-job-controller"]),
        (["configmaps"], ["create"], None),
        (["configmaps"], ["get", "update"], ["gpumpi-node-health"]),
    ]


def read_node_policy(stack: Deployment) -> Any:
    (container,) = find_object(stack, "Deployment", "gpumpi-job-controller")["spec"]["template"]["spec"]["containers"]
    return json.loads({variable["name"]: variable["value"] for variable in container["env"]}.get("GPUMPI_NODES", "null"))


def test_the_job_controller_watches_nodes_of_all_pools_that_run_ranks(stack: Deployment) -> None:
    pools = [
        {"gpus": 8, "labels": {"gpumpi.io/pool": "train"}},
        {"gpus": 1, "labels": {"gpumpi.io/pool": "single"}},
    ]
    assert read_node_policy(stack) == {"existing": False, "pools": pools}
    assert [override["nodeUnhealthyReason"] for override in read_repair_overrides(stack, "train")] == [
        override["node_unhealthy_reason"] for override in faults.list_repair_overrides()
    ]


def read_repair_overrides(stack: Deployment, name: str) -> Any:
    return stack.find_resource(engine.NODE_GROUP, name).inputs["nodeRepairConfig"]["nodeRepairConfigOverrides"]


def test_without_healing_the_job_controller_can_only_read_nodes() -> None:
    off = deploy_platform(make_settings(nodeHealing=False))
    (nodes,) = find_object(off, "ClusterRole", "gpumpi-job-controller")["rules"]
    assert nodes["verbs"] == ["get", "list", "watch"] and read_node_policy(off) is None
    assert len(find_object(off, "Role", "gpumpi-job-controller", "gpumpi-system")["rules"]) == 2


def test_only_pods_that_call_the_kubernetes_api_have_a_token(stack: Deployment) -> None:
    with_token = {
        manifest["metadata"]["name"]
        for manifest in list_manifests(stack, "Deployment", "DaemonSet")
        if manifest["spec"]["template"]["spec"]["automountServiceAccountToken"]
    }
    assert with_token == {"cluster-autoscaler", "gpumpi-job-controller", "kueue-controller-manager", "mpi-operator"}
    accounts = [account for account in list_manifests(stack, "ServiceAccount") if account["metadata"]["name"] != "mpi-operator"]
    assert accounts and all(account["automountServiceAccountToken"] is False for account in accounts)


def test_the_service_account_of_jobs_has_no_permissions(stack: Deployment) -> None:
    assert find_object(stack, "ServiceAccount", "mpi-job", "mpi-jobs")["automountServiceAccountToken"] is False
    subjects = [
        subject for binding in list_manifests(stack, "RoleBinding", "ClusterRoleBinding") for subject in binding["subjects"]
    ]
    assert not [subject for subject in subjects if subject["name"] in ("mpi-job", "default")]


# --- device plugins


@pytest.mark.mission("D", "device plugin")
@pytest.mark.mission("E", "device plugin")
def test_device_plugins_run_on_every_node_with_the_device_despite_taints(stack: Deployment) -> None:
    selectors = {}
    for daemon_set in list_manifests(stack, "DaemonSet"):
        pod = daemon_set["spec"]["template"]["spec"]
        assert pod["tolerations"] == [{"operator": "Exists"}]
        assert pod["priorityClassName"] == "system-node-critical"
        selectors[daemon_set["metadata"]["name"]] = pod["nodeSelector"]
    assert selectors == {
        "nvidia-device-plugin-daemonset": {"nvidia.com/gpu.present": "true"},
        "aws-efa-k8s-device-plugin-daemonset": {"vpc.amazonaws.com/efa.present": "true"},
    }


def test_nodes_have_the_labels_selected_by_device_plugins(stack: Deployment) -> None:
    labels = [group.inputs["labels"] for group in stack.find_resources("aws:eks/nodeGroup:NodeGroup")]
    for daemon_set in list_manifests(stack, "DaemonSet"):
        selector = daemon_set["spec"]["template"]["spec"]["nodeSelector"]
        assert any(selector.items() <= label.items() for label in labels)


# --- operator


def test_the_mpi_operator_adds_only_requests_probes_and_memory_to_upstream(stack: Deployment) -> None:
    pod = find_object(stack, "Deployment", "mpi-operator")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"] == "docker.io/mpioperator/mpi-operator:0.8.2"
    assert {"--lock-namespace=mpi-operator", "--kube-api-qps=50", "--controller-queue-rate-limit=500"} <= set(container["args"])
    assert container["livenessProbe"]["httpGet"] == container["readinessProbe"]["httpGet"] == {"path": "/healthz", "port": 8080}
    assert pod["nodeSelector"] == {"gpumpi.io/pool": "system"}


def test_only_descriptions_are_removed_from_crds(stack: Deployment) -> None:
    schema = find_object(stack, "CustomResourceDefinition", "mpijobs.kubeflow.org")["spec"]["versions"][0]["schema"][
        "openAPIV3Schema"
    ]
    assert "description" not in schema and set(schema["properties"]) == {"apiVersion", "kind", "metadata", "spec", "status"}
    assert "mpiReplicaSpecs" in schema["properties"]["spec"]["properties"]


# --- description


def test_the_cluster_description_contains_pools_and_namespaces_for_submit(stack: Deployment) -> None:
    described = read_description(stack)
    assert [pool.name for pool in described.pools] == ["system", "train", "single"]
    train = described.pool("train")
    assert train and (train.gpus, train.slots, train.efa, train.max_size, train.hugepages_mib) == (8, 8, 4, 4, 10256)
    assert train.taints[0].key == "nvidia.com/gpu" and train.labels["gpumpi.io/pool"] == "train"
    (namespace,) = described.namespaces
    assert (namespace.name, namespace.service_account, namespace.queue) == ("mpi-jobs", "mpi-job", "default")
    assert [(volume.claim, volume.mount_path) for volume in namespace.volumes] == [("shared", "/shared")]
    assert (described.bucket, described.account) == (stack.outputs["keyBucket"], "123456789012")


def test_volume_claims_queue_and_priorities_in_the_description_exist(stack: Deployment) -> None:
    (namespace,) = read_description(stack).namespaces
    find_object(stack, "LocalQueue", namespace.queue or "", namespace.name)
    for volume in namespace.volumes:
        find_object(stack, "PersistentVolumeClaim", volume.claim, namespace.name)
    for priority in namespace.priority_classes:
        find_object(stack, "PriorityClass", priority)
    find_object(stack, "ServiceAccount", namespace.service_account, namespace.name)


def test_the_description_names_no_queue_if_the_queue_is_disabled() -> None:
    bare = deploy_platform(make_settings(queue=False))
    assert read_description(bare).namespaces[0].queue is None and not list_manifests(bare, "LocalQueue")


def test_every_user_can_read_only_the_cluster_description(stack: Deployment) -> None:
    (binding,) = [
        entry for entry in list_manifests(stack, "RoleBinding") if entry["subjects"][0]["name"] == "system:authenticated"
    ]
    role = find_object(stack, "Role", binding["roleRef"]["name"], "gpumpi-system")
    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["gpumpi-cluster"], "verbs": ["get"]}
    ]


# --- other stacks


def test_queue_quotas_exist_for_each_pool_of_the_stack() -> None:
    assert set(read_quotas(deploy_platform(make_settings(TRAIN)))) == {"system", "train"}


def test_the_mpi_operator_has_permission_to_restart_a_job_evicted_by_the_queue() -> None:
    rules = find_object(deploy_default_platform(), "ClusterRole", "mpi-operator")["rules"]
    assert {"apiGroups": ["batch"], "resources": ["jobs/status"], "verbs": ["update"]} in rules
