"""Kubeflow Trainer: runs TrainJobs as JobSets, from runtimes such as `torch-distributed`. Pure."""

from typing import Final

import yaml

from infra.facts.manifests import Manifests
from infra.naming import TRAINER_NAMESPACE
from infra.platform.objects import Object, binding, of_kind, of_service, without_descriptions
from infra.platform.webhook_operator import OperatorSpec
from infra.versions import TRAINER, TRAINER_DEFINITIONS, TRAINER_ROLE, TRAINER_RUNTIMES, TRAINER_WEBHOOKS

NAME: Final = "kubeflow-trainer-controller-manager"
"""Name of the Deployment, service account, role and webhook service in upstream's manifests."""
CERTIFICATE: Final = "kubeflow-trainer-webhook-cert"
WEBHOOKS_NAME: Final = "validator.trainer.kubeflow.org"
"""Name that Trainer uses to look up its webhook configuration:
kubeflow/trainer@v2.1.0:cmd/trainer-controller-manager/main.go"""


def operator(manifests: Manifests) -> OperatorSpec:
    configuration = {
        "apiVersion": "config.trainer.kubeflow.org/v1alpha1",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": ":8081", "readinessEndpointName": "readyz", "livenessEndpointName": "healthz"},
        "metrics": {"bindAddress": ":8443", "secureServing": True},
        "webhook": {"port": 9443, "host": ""},  # Trainer v2.1.0 has no default host and crashes if none is set
        "leaderElection": {
            "leaderElect": True,
            "resourceName": "trainer.kubeflow.org",
            "resourceNamespace": "",
            "leaseDuration": "15s",
            "renewDeadline": "10s",
            "retryPeriod": "2s",
        },
        "certManagement": {"enable": True, "webhookServiceName": NAME, "webhookSecretName": CERTIFICATE},
        "clientConnection": {"qps": 50, "burst": 100},
    }
    (role,) = of_kind(manifests.of(TRAINER_ROLE), "ClusterRole")
    (webhooks,) = of_kind(manifests.of(TRAINER_WEBHOOKS), "ValidatingWebhookConfiguration")
    webhooks["metadata"]["name"] = WEBHOOKS_NAME
    for webhook in webhooks["webhooks"]:
        of_service(webhook, NAME, TRAINER_NAMESPACE)
    return OperatorSpec(
        component="Trainer",
        namespace=TRAINER_NAMESPACE,
        name=NAME,
        account=NAME,
        labels={"app.kubernetes.io/name": "trainer", "app.kubernetes.io/component": "manager"},
        image=f"ghcr.io/kubeflow/trainer/trainer-controller-manager:{TRAINER}",
        service=NAME,
        certificate=CERTIFICATE,
        configuration_name="kubeflow-trainer-config",
        configuration=yaml.safe_dump(configuration, sort_keys=False),
        definitions=_definitions(manifests),
        permissions=[role, binding(role, NAME, TRAINER_NAMESPACE)],
        webhooks=[webhooks],
        objects=[runtime for file in TRAINER_RUNTIMES for runtime in of_kind(manifests.of(file), "ClusterTrainingRuntime")],
    )


def _definitions(manifests: Manifests) -> list[Object]:
    return [
        without_descriptions(definition)
        for file in TRAINER_DEFINITIONS
        for definition in of_kind(manifests.of(file), "CustomResourceDefinition")
    ]
