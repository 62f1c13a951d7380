"""Monitoring in the cluster."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pulumi
import pulumi_kubernetes as kubernetes
import yaml

from infra.monitoring import grafana, rules, scrape
from infra.monitoring.model import ALERTMANAGER, DCGM_EXPORTER, KUBE_STATE_METRICS, NODE_EXPORTER, PROMETHEUS, Monitored, Target
from infra.naming import COMPONENT, KUBE_SYSTEM, MONITORING_NAMESPACE, QUEUE_NAMESPACE
from infra.platform import network_policies
from infra.platform.monitoring import pods
from infra.platform.pods import build_restart_annotation, create_daemon_set, create_deployment
from infra.platform.rbac import READ, Account, build_rule
from infra.platform.site import Site

DASHBOARDS: Final = "gpumpi-dashboards"
FOR_GRAFANA: Final = {"grafana_dashboard": "1"}
"""Label by which the sidecar of Grafana's chart finds dashboards."""
_GROUPS: Final = {"daemonsets": "apps", "deployments": "apps", "jobs": "batch", "nodes": "", "pods": ""}


class Monitoring(pulumi.ComponentResource):
    """Creates:
    - a namespace that rejects privileged pods, with Prometheus, Alertmanager and kube-state-metrics
    - a DaemonSet of node-exporter and, on nodes with GPUs, of NVIDIA's DCGM exporter
    - permissions to read the monitored objects, and network policies that let only Prometheus read metrics
    - a ConfigMap with dashboards for Grafana
    """

    def __init__(
        self,
        name: str,
        site: Site,
        cluster: Monitored,
        after: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`after` contains the namespaces that Prometheus may read."""
        super().__init__(f"{COMPONENT}:Monitoring", name, None, opts)
        self._name, self._site, self._cluster = name, site, cluster
        self._after = [*site.node_groups, *after]
        self._namespace = kubernetes.core.v1.Namespace(
            f"{name}-namespace",
            metadata={"name": MONITORING_NAMESPACE, "labels": self._site.build_pod_security_labels("restricted")},
            opts=self._site.options(self),
        )
        self._inside = self._site.options(self, inside=self._namespace)
        needs = [*self._create_permissions(), *self._create_policies()]
        self._create_servers(needs)
        self._create_agents()
        self._create_config_map(DASHBOARDS, grafana.render_dashboards(), FOR_GRAFANA)
        self.register_outputs({})

    # --- permissions ---------------------------------------------------------------------------------------------------

    def _create_permissions(self) -> list[pulumi.Resource]:
        reader, states, alertmanager = (
            Account(target.job, MONITORING_NAMESPACE, f"gpumpi-{target.job}")
            for target in (PROMETHEUS, KUBE_STATE_METRICS, ALERTMANAGER)
        )
        options = self._site.options(self)
        created = [
            account.create(f"{self._name}-{account.name}-account", self._inside) for account in (reader, states, alertmanager)
        ]
        created += reader.grant(f"{self._name}-{reader.name}", _build_prometheus_cluster_rules(), options)
        created += states.grant(f"{self._name}-{states.name}", _build_kube_state_metrics_rules(), options)
        for namespace in (MONITORING_NAMESPACE, KUBE_SYSTEM, *([QUEUE_NAMESPACE] if self._cluster.queue else [])):
            own = self._inside if namespace == MONITORING_NAMESPACE else self._site.options(self, *self._after)
            resource = f"{self._name}-{reader.name}-{namespace}"
            created += reader.grant(resource, _build_prometheus_namespace_rules(), own, namespace=namespace)
        return created

    def _create_policies(self) -> list[pulumi.Resource]:
        # `kubectl port-forward` still works, because its connection originates inside the pod.
        same_namespace = network_policies.build_ingress_spec({}, [{"from_": [{"pod_selector": {}}]}])
        own = self._create_policy("only-monitoring", MONITORING_NAMESPACE, same_namespace, self._inside)
        cluster = self._cluster
        guarded: list[Target] = [NODE_EXPORTER, *([DCGM_EXPORTER] if cluster.gpus else [])]
        guarded += [scrape.AUTOSCALER] if cluster.autoscaler else []
        policies = [
            self._create_policy(
                f"{app.job}-metrics",
                app.namespace,
                network_policies.build_metrics_spec(app.labels, [app.port]),
                self._site.options(self),
            )
            for app in guarded
        ]
        return [own, *policies]

    def _create_policy(self, policy: str, namespace: str, spec: Any, options: pulumi.ResourceOptions) -> pulumi.Resource:
        metadata: Any = {"name": policy, "namespace": namespace}
        return kubernetes.networking.v1.NetworkPolicy(f"{self._name}-{policy}", metadata=metadata, spec=spec, opts=options)

    # --- pods ----------------------------------------------------------------------------------------------------------

    def _create_servers(self, needs: Sequence[pulumi.Resource]) -> None:
        site, cluster = self._site, self._cluster
        watched = {
            "prometheus.yml": _to_yaml(scrape.build_prometheus_config(cluster)),
            "rules.yml": _to_yaml(rules.build_rule_file(cluster)),
        }
        routes = {"alertmanager.yml": _to_yaml(scrape.build_alertmanager_config(cluster))}
        servers = {
            PROMETHEUS: pods.build_prometheus_pod(site, cluster),
            ALERTMANAGER: pods.build_alertmanager_pod(site, cluster),
            KUBE_STATE_METRICS: pods.build_kube_state_metrics_pod(site),
        }
        configured = [self._create_config_map(PROMETHEUS.job, watched), self._create_config_map(ALERTMANAGER.job, routes)]
        after = [*needs, *configured]
        for target, pod in servers.items():
            # Alertmanager does not reload a changed configuration by itself.
            notes = build_restart_annotation(*routes.values()) if target is ALERTMANAGER else {}
            options = site.options(self, self._namespace, *after, *self._after)
            create_deployment(f"{self._name}-{target.job}", _build_metadata(target), pod, options, annotations=notes)
        kubernetes.core.v1.Service(
            f"{self._name}-service",
            # Do not wait for endpoints: the Deployment may still be starting.
            metadata={
                "name": PROMETHEUS.job,
                "namespace": MONITORING_NAMESPACE,
                "annotations": {"pulumi.com/skipAwait": "true"},
            },
            spec={"selector": dict(PROMETHEUS.labels), "ports": [{"name": "http", "port": PROMETHEUS.port}]},
            opts=self._inside,
        )

    def _create_config_map(
        self, config_map: str, files: Mapping[str, str], labels: Mapping[str, str] | None = None
    ) -> pulumi.Resource:
        metadata: Any = {"name": config_map, "namespace": MONITORING_NAMESPACE, **({"labels": labels} if labels else {})}
        return kubernetes.core.v1.ConfigMap(f"{self._name}-{config_map}", metadata=metadata, data=dict(files), opts=self._inside)

    def _create_agents(self) -> None:
        agents = {NODE_EXPORTER: pods.build_node_exporter_pod(self._site)}
        if self._cluster.gpus:
            agents[DCGM_EXPORTER] = pods.build_dcgm_exporter_pod(self._site)
        for target, pod in agents.items():
            create_daemon_set(f"{self._name}-{target.job}", _build_metadata(target), pod, self._site.options(self))


def _build_metadata(target: Target) -> dict[str, Any]:
    return {"name": target.job, "namespace": target.namespace, "labels": dict(target.labels)}


def _to_yaml(content: Mapping[str, Any]) -> str:
    return yaml.safe_dump(dict(content), sort_keys=False, width=1000)


# --- access ----------------------------------------------------------------------------------------------------------


def _build_prometheus_cluster_rules() -> list[Any]:
    """Return permissions to find nodes and to read the metrics of kubelets and Kueue. The permissions do not include
    `nodes/proxy`, which would let Prometheus run commands in pods."""
    return [
        build_rule("", ["nodes"], READ),
        build_rule("", ["nodes/metrics"], ["get"]),
        {"non_resource_urls": ["/metrics"], "verbs": ["get"]},
    ]


def _build_prometheus_namespace_rules() -> list[Any]:
    """Return the permission to find pods with metrics."""
    return [build_rule("", ["pods"], READ)]


def _build_kube_state_metrics_rules() -> list[Any]:
    groups: dict[str, list[str]] = {}
    for resource in pods.RESOURCES:
        groups.setdefault(_GROUPS[resource], []).append(resource)
    return [build_rule(group, names, ["list", "watch"]) for group, names in sorted(groups.items())]
