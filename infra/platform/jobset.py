"""JobSet, which runs the pods of Kubeflow Trainer's jobs. Pure."""

from typing import Final

import yaml

from infra.facts.manifests import Manifests
from infra.naming import JOBSET_NAMESPACE
from infra.platform.objects import Object, binding, of_kind, of_service, without_descriptions
from infra.platform.webhook_operator import OperatorSpec
from infra.versions import JOBSET, JOBSET_AUTHORIZATION, JOBSET_DEFINITION, JOBSET_LEADER, JOBSET_ROLE, JOBSET_WEBHOOKS

PREFIX: Final = "jobset-"
"""Name prefix that upstream's `config/default` uses. JobSet finds its Service, Secret and webhooks by the prefixed
names."""
ACCOUNT: Final = f"{PREFIX}controller-manager"
SERVICE: Final = f"{PREFIX}webhook-service"
POD_LABEL: Final = "jobset.sigs.k8s.io/jobset-name"


def operator(manifests: Manifests) -> OperatorSpec:
    (definition,) = of_kind(manifests.of(JOBSET_DEFINITION), "CustomResourceDefinition")
    configuration = {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": True},
        "internalCertManagement": {"enable": True},
    }
    return OperatorSpec(
        component="JobSet",
        namespace=JOBSET_NAMESPACE,
        name=ACCOUNT,
        account=ACCOUNT,
        labels={"app.kubernetes.io/name": "jobset", "control-plane": "controller-manager"},
        image=f"registry.k8s.io/jobset/jobset:{JOBSET}",
        service=SERVICE,
        certificate=f"{PREFIX}webhook-server-cert",
        configuration_name=f"{PREFIX}manager-config",
        configuration=yaml.safe_dump(configuration, sort_keys=False),
        definitions=[without_descriptions(definition)],
        permissions=_permissions(manifests),
        webhooks=_webhooks(manifests),
    )


def _permissions(manifests: Manifests) -> list[Object]:
    roles: list[Object] = []
    for file, kind in ((JOBSET_ROLE, "ClusterRole"), (JOBSET_AUTHORIZATION, "ClusterRole"), (JOBSET_LEADER, "Role")):
        (role,) = of_kind(manifests.of(file), kind)
        role["metadata"] = {"name": f"{PREFIX}{role['metadata']['name']}"}
        if kind == "Role":
            role["metadata"]["namespace"] = JOBSET_NAMESPACE
        roles += [role, binding(role, ACCOUNT, JOBSET_NAMESPACE)]
    return roles


def _webhooks(manifests: Manifests) -> list[Object]:
    """Return the webhooks. The webhooks for pods apply only to pods of JobSets, as in upstream's patches."""
    configurations: list[Object] = []
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        (configuration,) = of_kind(manifests.of(JOBSET_WEBHOOKS), kind)
        configuration["metadata"]["name"] = f"{PREFIX}{configuration['metadata']['name']}"
        for webhook in configuration["webhooks"]:
            of_service(webhook, SERVICE, JOBSET_NAMESPACE)
            if webhook["rules"][0]["resources"] == ["pods"]:
                webhook["objectSelector"] = {"matchExpressions": [{"key": POD_LABEL, "operator": "Exists"}]}
        configurations.append(configuration)
    return configurations
