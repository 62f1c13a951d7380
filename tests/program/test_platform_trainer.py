"""Kubeflow Trainer and JobSet, installed by `platform.trainer`."""

import pytest

from tests.program.engine import Deployment
from tests.program.platform_world import deploy_default_platform, deploy_platform, find_object, list_manifests, make_settings

OPERATORS = {"jobset-system": "jobset-controller-manager", "kubeflow-system": "kubeflow-trainer-controller-manager"}


@pytest.fixture(scope="module")
def stack() -> Deployment:
    return deploy_platform(make_settings(trainer=True))


def test_trainer_is_not_installed_by_default() -> None:
    assert (
        not {namespace["metadata"]["name"] for namespace in list_manifests(deploy_default_platform(), "Namespace")}
        & OPERATORS.keys()
    )


@pytest.mark.parametrize("namespace", OPERATORS)
def test_webhook_services_select_the_pods_of_their_operator(stack: Deployment, namespace: str) -> None:
    deployment = find_object(stack, "Deployment", OPERATORS[namespace], namespace)
    pod = deployment["spec"]["template"]
    services = {service["metadata"]["name"]: service["spec"]["selector"] for service in list_manifests(stack, "Service")}
    called = [
        webhook["clientConfig"]["service"]
        for configuration in list_manifests(stack, "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
        for webhook in configuration["webhooks"]
        if webhook["clientConfig"]["service"]["namespace"] == namespace
    ]
    assert called and all(services[reference["name"]].items() <= pod["metadata"]["labels"].items() for reference in called)
    secrets = {volume["secret"]["secretName"] for volume in pod["spec"]["volumes"] if "secret" in volume}
    assert secrets == {
        tls["metadata"]["name"] for tls in list_manifests(stack, "Secret") if tls["metadata"]["namespace"] == namespace
    }


def test_job_set_webhooks_ignore_pods_of_other_workloads(stack: Deployment) -> None:
    webhooks = [
        webhook
        for configuration in list_manifests(stack, "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
        for webhook in configuration["webhooks"]
        if webhook["clientConfig"]["service"]["namespace"] == "jobset-system" and webhook["rules"][0]["resources"] == ["pods"]
    ]
    assert len(webhooks) == 2
    for webhook in webhooks:
        (term,) = webhook["objectSelector"]["matchExpressions"]
        assert term == {"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"}


def test_train_jobs_can_reference_the_pytorch_runtime(stack: Deployment) -> None:
    runtime = find_object(stack, "ClusterTrainingRuntime", "torch-distributed")
    assert runtime["spec"]["mlPolicy"]["torch"] == {"numProcPerNode": "auto"}
    definitions = {crd["metadata"]["name"] for crd in list_manifests(stack, "CustomResourceDefinition")}
    assert {"trainjobs.trainer.kubeflow.org", "jobsets.jobset.x-k8s.io"} <= definitions


def test_installing_trainer_restarts_kueue_to_detect_the_new_kinds(stack: Deployment) -> None:
    def read_annotations(stack: Deployment) -> dict[str, str]:
        controller = find_object(stack, "Deployment", "kueue-controller-manager", "kueue-system")
        annotations: dict[str, str] = controller["spec"]["template"]["metadata"]["annotations"]
        return annotations

    assert read_annotations(stack) == read_annotations(deploy_default_platform()) | {"gpumpi.io/kinds": "JobSet,TrainJob"}
