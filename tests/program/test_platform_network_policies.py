"""Which connections the pods of the platform accept, by the rules of the agent that enforces network policies."""

from collections.abc import Mapping

import pytest

from infra.naming import KUBE_SYSTEM
from localcloud.kubernetes.network_policy.objects import Pod
from localcloud.kubernetes.network_policy.resolve import ANYWHERE, Allow, Ports, World, resolve_isolations
from tests.program.engine import Deployment
from tests.program.platform_world import deploy_platform, find_object, list_manifests, make_settings, read_description

PROMETHEUS, INTRUDER = "gpumpi-monitoring/prometheus", "mpi-jobs/intruder"
CLOSED: frozenset[Allow] = frozenset()
WEBHOOKS = Allow(ANYWHERE, (), Ports("TCP", 9443, 9443))


@pytest.fixture(scope="module")
def stack() -> Deployment:
    return deploy_platform(make_settings(monitoring=True, trainer=True))


def list_pods(stack: Deployment) -> dict[str, Pod]:
    """Return a pod of each Deployment, and a job user's pod that pretends to be Prometheus, by namespace and name."""
    deployments = list_manifests(stack, "Deployment")
    labels = {
        f"{manifest['metadata']['namespace']}/{manifest['metadata']['name']}": manifest["spec"]["template"]["metadata"]["labels"]
        for manifest in deployments
    }
    labels[INTRUDER] = {**labels[PROMETHEUS]}
    return {
        name: Pod(name.partition("/")[0], own, f"10.0.0.{number}") for number, (name, own) in enumerate(labels.items(), start=1)
    }


def resolve_ingress(stack: Deployment) -> Mapping[str, frozenset[Allow] | None]:
    """Return the connections that each pod accepts; None if it accepts all."""
    pods = list_pods(stack)
    policies = [
        {"namespace": policy["metadata"]["namespace"], "spec": policy["spec"]}
        for policy in list_manifests(stack, "NetworkPolicy")
    ]
    namespaces = {name: {"kubernetes.io/metadata.name": name} for name in {pod.namespace for pod in pods.values()}}
    isolations = resolve_isolations(World(policies, list(pods.values()), namespaces=namespaces))
    return {name: isolations[pod.address].ingress if pod.address in isolations else None for name, pod in pods.items()}


def test_every_pod_of_the_platform_limits_ingress(stack: Deployment) -> None:
    assert [name for name, allowed in resolve_ingress(stack).items() if allowed is None] == []


def test_controllers_without_webhooks_accept_no_connection(stack: Deployment) -> None:
    ingress = resolve_ingress(stack)
    assert ingress["gpumpi-system/gpumpi-job-controller"] == CLOSED
    assert ingress["mpi-operator/mpi-operator"] == CLOSED


def test_operators_accept_webhook_calls_from_anywhere_and_no_other_connection(stack: Deployment) -> None:
    ingress = resolve_ingress(stack)
    assert ingress["jobset-system/jobset-controller-manager"] == {WEBHOOKS}
    assert ingress["kubeflow-system/kubeflow-trainer-controller-manager"] == {WEBHOOKS}


def test_only_prometheus_reads_the_metrics_of_the_queue(stack: Deployment) -> None:
    prometheus = list_pods(stack)[PROMETHEUS].address
    metrics = Allow(f"{prometheus}/32", (), Ports("TCP", 8443, 8443))
    assert resolve_ingress(stack)["kueue-system/kueue-controller-manager"] == {WEBHOOKS, metrics}


def test_every_webhook_of_the_platform_remains_reachable(stack: Deployment) -> None:
    """A webhook that accepts no connections would block every job."""
    ingress = resolve_ingress(stack)
    services = [service for service in list_manifests(stack, "Service") if service["spec"]["ports"][0]["name"] == "https"]
    assert {service["metadata"]["namespace"] for service in services} == {"kueue-system", "jobset-system", "kubeflow-system"}
    for service in services:
        port, namespace = service["spec"]["ports"][0]["targetPort"], service["metadata"]["namespace"]
        (allowed,) = [allowed for name, allowed in ingress.items() if name.startswith(f"{namespace}/")]
        assert allowed is not None and Allow(ANYWHERE, (), Ports("TCP", port, port)) in allowed


@pytest.mark.parametrize("monitoring", [True, False])
def test_every_namespace_of_the_platform_has_a_policy_for_all_its_pods(*, monitoring: bool) -> None:
    stack = deploy_platform(make_settings(monitoring=monitoring, trainer=monitoring))
    job_namespaces = {space.name for space in read_description(stack).namespaces}
    for namespace in {manifest["metadata"]["name"] for manifest in list_manifests(stack, "Namespace")} - job_namespaces:
        assert namespace != KUBE_SYSTEM
        name = "only-monitoring" if namespace == "gpumpi-monitoring" else "ingress"
        spec = find_object(stack, "NetworkPolicy", name, namespace)["spec"]
        assert spec["podSelector"] == {} and spec["policyTypes"] == ["Ingress"]
