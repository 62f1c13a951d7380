"""Kueue: admits all pods of a job at once, or none. Built from the same files as Kueue's `config/default`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pulumi

from infra.facts.manifests import Manifests
from infra.naming import JOBS_LABEL, QUEUE_GROUP, QUEUE_NAME, QUEUE_NAMESPACE
from infra.platform import admission, objects
from infra.platform.objects import Object, select_by_kind
from infra.platform.site import Site
from infra.platform.webhook_operator import OperatorSpec, WebhookOperator
from infra.versions import KUEUE, KUEUE_CRDS, KUEUE_ROLE, KUEUE_WEBHOOKS

API: Final = f"{QUEUE_GROUP}/v1beta2"
# default names in Kueue's own configuration
NAME: Final = "kueue-controller-manager"
WEBHOOK_SERVICE: Final = "kueue-webhook-service"

CONVERTED: Final = frozenset({"clusterqueues", "cohorts", "localqueues", "multikueueclusters", "workloads"})
"""Kinds that Kueue's webhook converts between API versions (config/components/crd/kustomization.yaml)."""

KINDS_OF_JOBS: Final = frozenset({"job", "jobset", "mpijob", "pod", "pytorchjob", "rayjob", "statefulset", "trainjob"})
KINDS_OF_KUEUE: Final = frozenset({"clusterqueue", "cohort", "resourceflavor", "workload"})
"""Kinds whose webhooks are installed. The other webhooks are for kinds of jobs that the queue does not manage."""

GROUPS_NOT_MANAGED: Final = frozenset({"leaderworkerset.x-k8s.io", "workload.codeflare.dev"})


class Queue(WebhookOperator):
    """Creates:
    - Kueue's custom resource definitions, roles, webhooks (for job namespaces only) and controller
    - a resource flavor for each pool, and one cluster queue with the quota of all pools at maximum size
    """

    cluster_queue: pulumi.Resource
    """The cluster queue, which must exist before the queues in namespaces. The controller must still run when the cluster
    queue is deleted."""

    def __init__(
        self, name: str, site: Site, after: Sequence[pulumi.Resource], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(name, build_operator_spec(site), site, after, opts)

    def _create_objects(self) -> None:
        site, settings, pools = self._site, self._site.settings, self._site.description.pools
        flavors = [
            self._create_object(f"{pool.name}-flavour", "ResourceFlavor", pool.name, admission.build_flavor(pool))
            for pool in pools
        ]
        factor, strict = site.description.cpu_request_factor, settings.queue_order == "strict"
        queue = admission.build_cluster_queue(pools, factor, strict=strict)
        self.cluster_queue = self._create_object("cluster-queue", "ClusterQueue", QUEUE_NAME, queue, *flavors)

    def _create_object(
        self, part: str, kind: str, name: str, spec: Mapping[str, Any], *after: pulumi.Resource
    ) -> pulumi.CustomResource:
        manifest = {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec}
        return objects.register_custom_resource(
            f"{self._name}-{part}", manifest, self._site.options(self, self.deployment, *after)
        )


def build_operator_spec(site: Site) -> OperatorSpec:
    settings, manifests = site.settings, site.manifests
    return OperatorSpec(
        component="Queue",
        namespace=QUEUE_NAMESPACE,
        name=NAME,
        labels={"app.kubernetes.io/name": "kueue", "control-plane": "controller-manager"},
        image=f"registry.k8s.io/kueue/kueue:{KUEUE}",
        service=WEBHOOK_SERVICE,
        certificate="kueue-webhook-server-cert",
        configuration_name="kueue-manager-config",
        configuration=admission.build_kueue_config(
            mpi_jobs=settings.mpi_operator,
            start_attempts=settings.start_attempts,
            strict=settings.queue_order == "strict",
        ),
        definitions=list(_list_crds(manifests)),
        roles=_build_roles(manifests),
        webhooks=list(_list_webhooks(manifests)),
        size=(500, "512Mi", "1Gi"),
        metrics_port=admission.METRICS_PORT,
        # A running controller can take two minutes to notice new custom resource definitions. Until then, it treats the
        # Jobs of a JobSet as independent jobs, and suspends them whenever JobSet resumes them.
        # Source: kubernetes-sigs/kueue@v0.16.1:pkg/controller/jobframework/setup.go
        annotations={"gpumpi.io/kinds": "JobSet,TrainJob"} if settings.trainer else {},
        deployment="controller",
    )


def _list_crds(manifests: Manifests) -> Iterator[Object]:
    """Yield Kueue's custom resource definitions."""
    for file in KUEUE_CRDS:
        (definition,) = select_by_kind(manifests.get_objects(file), "CustomResourceDefinition")
        if definition["spec"]["names"]["plural"] in CONVERTED:
            client = {"service": {"namespace": QUEUE_NAMESPACE, "name": WEBHOOK_SERVICE, "path": "/convert"}}
            webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
            definition["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
        yield definition


def _list_webhooks(manifests: Manifests) -> Iterator[Object]:
    """Yield the webhooks for Kueue's own kinds and, limited to job namespaces, for job kinds.

    Upstream's webhooks apply to pods in nearly every namespace: while Kueue is down, no pod could start in these
    namespaces.
    """
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        (config,) = select_by_kind(manifests.get_objects(KUEUE_WEBHOOKS), kind)
        config["metadata"]["name"] = f"kueue-{config['metadata']['name']}"
        config["webhooks"] = [hook for hook in config["webhooks"] if _parse_webhook_kind(hook) in KINDS_OF_JOBS | KINDS_OF_KUEUE]
        for hook in config["webhooks"]:
            if _parse_webhook_kind(hook) in KINDS_OF_JOBS:
                hook["namespaceSelector"] = {"matchLabels": {JOBS_LABEL: "true"}}
        yield config


def _parse_webhook_kind(webhook: Mapping[str, Any]) -> str:
    """Return the kind to which a webhook applies: `vmpijob.kb.io` -> `mpijob`."""
    name: str = webhook["name"]
    return name.removesuffix(".kb.io")[1:]


def _build_roles(manifests: Manifests) -> list[Object]:
    """Return upstream's role without the kinds that the queue does not manage, and the roles for clients of the metrics
    and for Kueue's own lease and certificate."""
    (manager,) = select_by_kind(manifests.get_objects(KUEUE_ROLE), "ClusterRole")
    manager["metadata"]["name"] = "kueue-manager-role"
    manager["rules"] = [rule for rule in manager["rules"] if not GROUPS_NOT_MANAGED.intersection(rule["apiGroups"])]
    everything = ["get", "list", "watch", "create", "update", "patch", "delete"]
    return [
        manager,
        _build_role(
            "ClusterRole",
            "kueue-metrics-auth-role",  # to authorize clients that read the metrics
            ("authentication.k8s.io", "tokenreviews", ["create"]),
            ("authorization.k8s.io", "subjectaccessreviews", ["create"]),
        ),
        _build_role(
            "Role",
            "kueue-leader-election-role",
            ("coordination.k8s.io", "leases", everything),
            ("", "events", ["create", "patch"]),
        ),
        _build_role("Role", "kueue-manager-secrets-role", ("", "secrets", ["get", "list", "update", "watch"])),
    ]


def _build_role(kind: str, name: str, *rules: tuple[str, str, Sequence[str]]) -> Object:
    namespace = {"namespace": QUEUE_NAMESPACE} if kind == "Role" else {}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name, **namespace},
        "rules": [{"apiGroups": [group], "resources": [resource], "verbs": list(verbs)} for group, resource, verbs in rules],
    }
