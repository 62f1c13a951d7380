"""Kubeflow Trainer and JobSet, installed by `platform.trainer`."""

import pytest

from tests.program.engine import Deployment
from tests.program.platform_world import asked, deployed, objects, only, usual

OPERATORS = {"jobset-system": "jobset-controller-manager", "kubeflow-system": "kubeflow-trainer-controller-manager"}


@pytest.fixture(scope="module")
def stack() -> Deployment:
    return deployed(asked(trainer=True))


def test_without_the_setting_there_is_no_trainer() -> None:
    assert not {namespace["metadata"]["name"] for namespace in objects(usual(), "Namespace")} & OPERATORS.keys()


@pytest.mark.parametrize("namespace", OPERATORS)
def test_an_operator_has_the_names_under_which_it_finds_its_webhooks(stack: Deployment, namespace: str) -> None:
    deployment = only(stack, "Deployment", OPERATORS[namespace], namespace)
    pod = deployment["spec"]["template"]
    services = {service["metadata"]["name"]: service["spec"]["selector"] for service in objects(stack, "Service")}
    called = [
        webhook["clientConfig"]["service"]
        for configuration in objects(stack, "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
        for webhook in configuration["webhooks"]
        if webhook["clientConfig"]["service"]["namespace"] == namespace
    ]
    assert called and all(services[reference["name"]].items() <= pod["metadata"]["labels"].items() for reference in called)
    secrets = {volume["secret"]["secretName"] for volume in pod["spec"]["volumes"] if "secret" in volume}
    assert secrets == {tls["metadata"]["name"] for tls in objects(stack, "Secret") if tls["metadata"]["namespace"] == namespace}


def test_webhooks_of_job_sets_see_no_pods_of_others(stack: Deployment) -> None:
    webhooks = [
        webhook
        for configuration in objects(stack, "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
        for webhook in configuration["webhooks"]
        if webhook["clientConfig"]["service"]["namespace"] == "jobset-system" and webhook["rules"][0]["resources"] == ["pods"]
    ]
    assert len(webhooks) == 2
    for webhook in webhooks:
        (term,) = webhook["objectSelector"]["matchExpressions"]
        assert term == {"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"}


def test_train_jobs_can_refer_to_the_runtime_for_pytorch(stack: Deployment) -> None:
    runtime = only(stack, "ClusterTrainingRuntime", "torch-distributed")
    assert runtime["spec"]["mlPolicy"]["torch"] == {"numProcPerNode": "auto"}
    definitions = {crd["metadata"]["name"] for crd in objects(stack, "CustomResourceDefinition")}
    assert {"trainjobs.trainer.kubeflow.org", "jobsets.jobset.x-k8s.io"} <= definitions


def test_installing_trainer_restarts_kueue_which_would_otherwise_notice_the_new_kinds_late(stack: Deployment) -> None:
    def annotations(stack: Deployment) -> dict[str, str]:
        controller = only(stack, "Deployment", "kueue-controller-manager", "kueue-system")
        annotations: dict[str, str] = controller["spec"]["template"]["metadata"]["annotations"]
        return annotations

    assert annotations(stack) == annotations(usual()) | {"gpumpi.io/kinds": "JobSet,TrainJob"}
