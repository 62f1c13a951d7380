"""Kubeflow Trainer, which runs TrainJobs from runtimes such as `torch-distributed`, and JobSet, which runs their pods.
Performs no I/O."""

from typing import Final

from infra import versions
from infra.facts.manifests import Manifests
from infra.naming import JOBSET_NAMESPACE, TRAINER_NAMESPACE
from infra.platform.objects import Object, select_by_kind
from infra.platform.webhook_operator import OperatorSpec

NAME: Final = "kubeflow-trainer-controller-manager"
"""Name of the Deployment, service account, role and webhook service in upstream's manifests."""
CERTIFICATE: Final = "kubeflow-trainer-webhook-cert"
WEBHOOKS_NAME: Final = "validator.trainer.kubeflow.org"
"""Name that Trainer uses to look up its webhook configuration:
kubeflow/trainer@v2.1.0:cmd/trainer-controller-manager/main.go"""
JOBSET_PREFIX: Final = "jobset-"
"""Name prefix that upstream's `config/default` uses. JobSet finds its Service, Secret and webhooks by the prefixed
names."""
POD_LABEL: Final = "jobset.sigs.k8s.io/jobset-name"


def build_trainer_spec(manifests: Manifests) -> OperatorSpec:
    (webhooks,) = select_by_kind(manifests.get_objects(versions.TRAINER_WEBHOOKS), "ValidatingWebhookConfiguration")
    webhooks["metadata"]["name"] = WEBHOOKS_NAME
    return OperatorSpec(
        component="Trainer",
        namespace=TRAINER_NAMESPACE,
        name=NAME,
        labels={"app.kubernetes.io/name": "trainer", "app.kubernetes.io/component": "manager"},
        image=f"ghcr.io/kubeflow/trainer/trainer-controller-manager:{versions.TRAINER}",
        service=NAME,
        certificate=CERTIFICATE,
        configuration_name="kubeflow-trainer-config",
        configuration={
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
        },
        definitions=[
            crd
            for file in versions.TRAINER_DEFINITIONS
            for crd in select_by_kind(manifests.get_objects(file), "CustomResourceDefinition")
        ],
        roles=select_by_kind(manifests.get_objects(versions.TRAINER_ROLE), "ClusterRole"),
        webhooks=[webhooks],
        objects=[
            runtime
            for file in versions.TRAINER_RUNTIMES
            for runtime in select_by_kind(manifests.get_objects(file), "ClusterTrainingRuntime")
        ],
    )


def build_jobset_spec(manifests: Manifests) -> OperatorSpec:
    return OperatorSpec(
        component="JobSet",
        namespace=JOBSET_NAMESPACE,
        name=f"{JOBSET_PREFIX}controller-manager",
        labels={"app.kubernetes.io/name": "jobset", "control-plane": "controller-manager"},
        image=f"registry.k8s.io/jobset/jobset:{versions.JOBSET}",
        service=f"{JOBSET_PREFIX}webhook-service",
        certificate=f"{JOBSET_PREFIX}webhook-server-cert",
        configuration_name=f"{JOBSET_PREFIX}manager-config",
        configuration={
            "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
            "kind": "Configuration",
            "leaderElection": {"leaderElect": True},
            "internalCertManagement": {"enable": True},
        },
        definitions=select_by_kind(manifests.get_objects(versions.JOBSET_DEFINITION), "CustomResourceDefinition"),
        roles=_build_jobset_roles(manifests),
        webhooks=_list_jobset_webhooks(manifests),
    )


def _build_jobset_roles(manifests: Manifests) -> list[Object]:
    roles: list[Object] = []
    for file, kind in (
        (versions.JOBSET_ROLE, "ClusterRole"),
        (versions.JOBSET_AUTHORIZATION, "ClusterRole"),
        (versions.JOBSET_LEADER, "Role"),
    ):
        (role,) = select_by_kind(manifests.get_objects(file), kind)
        namespace = {"namespace": JOBSET_NAMESPACE} if kind == "Role" else {}
        roles.append({**role, "metadata": {"name": f"{JOBSET_PREFIX}{role['metadata']['name']}", **namespace}})
    return roles


def _list_jobset_webhooks(manifests: Manifests) -> list[Object]:
    """Return the webhooks. The webhooks for pods apply only to pods of JobSets, as in upstream's patches."""
    configurations: list[Object] = []
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        (configuration,) = select_by_kind(manifests.get_objects(versions.JOBSET_WEBHOOKS), kind)
        configuration["metadata"]["name"] = f"{JOBSET_PREFIX}{configuration['metadata']['name']}"
        for webhook in configuration["webhooks"]:
            if webhook["rules"][0]["resources"] == ["pods"]:
                webhook["objectSelector"] = {"matchExpressions": [{"key": POD_LABEL, "operator": "Exists"}]}
        configurations.append(configuration)
    return configurations
