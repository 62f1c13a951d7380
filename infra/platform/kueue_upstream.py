"""Kueue objects that this program installs, built from the same files as Kueue's `config/default`. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from infra.facts.manifests import Manifests
from infra.naming import JOBS_LABEL, QUEUE_NAMESPACE
from infra.platform.objects import Object, of_kind, of_service, without_descriptions
from infra.versions import KUEUE_CRDS, KUEUE_ROLE, KUEUE_WEBHOOKS

WEBHOOK_SERVICE: Final = "kueue-webhook-service"

CONVERTED: Final = frozenset({"clusterqueues", "cohorts", "localqueues", "multikueueclusters", "workloads"})
"""Kinds that Kueue's webhook converts between API versions (config/components/crd/kustomization.yaml)."""

KINDS_OF_JOBS: Final = frozenset({"job", "jobset", "mpijob", "pod", "pytorchjob", "rayjob", "statefulset", "trainjob"})
KINDS_OF_KUEUE: Final = frozenset({"clusterqueue", "cohort", "resourceflavor", "workload"})
"""Kinds whose webhooks are installed. The other webhooks are for kinds of jobs that the queue does not manage."""

GROUPS_NOT_MANAGED: Final = frozenset({"leaderworkerset.x-k8s.io", "workload.codeflare.dev"})


def definitions(manifests: Manifests) -> Iterator[Object]:
    """Yield Kueue's custom resource definitions."""
    for file in KUEUE_CRDS:
        (definition,) = of_kind(manifests.of(file), "CustomResourceDefinition")
        slim = without_descriptions(definition)
        if slim["spec"]["names"]["plural"] in CONVERTED:
            client = {"service": {"namespace": QUEUE_NAMESPACE, "name": WEBHOOK_SERVICE, "path": "/convert"}}
            slim["spec"]["conversion"] = {
                "strategy": "Webhook",
                "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]},
            }
        yield slim


def webhooks(manifests: Manifests) -> Iterator[Object]:
    """Yield the webhooks for Kueue's own kinds and, limited to job namespaces, for job kinds.

    Upstream's webhooks apply to pods in nearly every namespace: while Kueue is down, no pod could start in these
    namespaces.
    """
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        (config,) = of_kind(manifests.of(KUEUE_WEBHOOKS), kind)
        config["metadata"]["name"] = f"kueue-{config['metadata']['name']}"
        config["webhooks"] = [_adapted(hook) for hook in config["webhooks"] if _kind(hook) in KINDS_OF_JOBS | KINDS_OF_KUEUE]
        yield config


def _kind(webhook: Mapping[str, Any]) -> str:
    """Return the kind that a webhook is for: `vmpijob.kb.io` -> `mpijob`."""
    name: str = webhook["name"]
    return name.removesuffix(".kb.io")[1:]


def _adapted(webhook: Object) -> Object:
    of_service(webhook, WEBHOOK_SERVICE, QUEUE_NAMESPACE)
    if _kind(webhook) in KINDS_OF_JOBS:
        webhook["namespaceSelector"] = {"matchLabels": {JOBS_LABEL: "true"}}
    return webhook


def cluster_roles(manifests: Manifests) -> list[Object]:
    (manager,) = of_kind(manifests.of(KUEUE_ROLE), "ClusterRole")
    manager["metadata"]["name"] = "kueue-manager-role"
    manager["rules"] = [rule for rule in manager["rules"] if not GROUPS_NOT_MANAGED.intersection(rule["apiGroups"])]
    # Kueue needs these permissions to authorize clients that read its metrics.
    metrics = _role(
        "ClusterRole",
        "kueue-metrics-auth-role",
        (["authentication.k8s.io"], ["tokenreviews"], ["create"]),
        (["authorization.k8s.io"], ["subjectaccessreviews"], ["create"]),
    )
    return [manager, metrics]


def namespace_roles() -> list[Object]:
    """Return the roles in Kueue's own namespace, which grant access to its lease and its certificate."""
    everything = ["get", "list", "watch", "create", "update", "patch", "delete"]
    return [
        _role(
            "Role",
            "kueue-leader-election-role",
            (["coordination.k8s.io"], ["leases"], everything),
            ([""], ["events"], ["create", "patch"]),
        ),
        _role("Role", "kueue-manager-secrets-role", ([""], ["secrets"], ["get", "list", "update", "watch"])),
    ]


def _role(kind: str, name: str, *rules: tuple[Sequence[str], Sequence[str], Sequence[str]]) -> Object:
    namespace = {"namespace": QUEUE_NAMESPACE} if kind == "Role" else {}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name, **namespace},
        "rules": [
            {"apiGroups": list(groups), "resources": list(resources), "verbs": list(verbs)} for groups, resources, verbs in rules
        ],
    }
