"""`platform.monitoring`: Prometheus, Alertmanager and exporters."""

import json
import re
from typing import Any

import pytest
import yaml

from infra.cost import prices
from infra.jobs.sizing import bytes_of
from tests.program.engine import Deployment
from tests.program.platform_world import SINGLE, asked, deployed, description, objects, only, pods, quotas, usual
from tests.program.test_platform import is_restricted
from tests.pure.world import pool

NAMESPACE = "gpumpi-monitoring"
SERVERS = {"prometheus", "alertmanager", "kube-state-metrics"}
AGENTS = {"node-exporter", "dcgm-exporter"}


@pytest.fixture(scope="module")
def stack() -> Deployment:
    return deployed(asked(monitoring=True))


def file(stack: Deployment, config_map: str, name: str) -> Any:
    return yaml.safe_load(only(stack, "ConfigMap", config_map, NAMESPACE)["data"][name])


def parts_with_alerts(stack: Deployment) -> set[str]:
    (group,) = [group for group in file(stack, "prometheus", "rules.yml")["groups"] if group["name"] == "platform"]
    return {rule["alert"] for rule in group["rules"]}


def container(stack: Deployment, kind: str, name: str) -> Any:
    (container,) = only(stack, kind, name)["spec"]["template"]["spec"]["containers"]
    return container


def test_without_the_setting_there_is_no_monitoring() -> None:
    names = {manifest["metadata"]["name"] for manifest in objects(usual())}
    assert not names & {NAMESPACE, "gpumpi-dashboards", *SERVERS, *AGENTS}


def test_with_the_setting_servers_and_exporters_run(stack: Deployment) -> None:
    added = {manifest["metadata"]["name"] for manifest in objects(stack, "Deployment", "DaemonSet")}
    assert added - {manifest["metadata"]["name"] for manifest in objects(usual(), "Deployment", "DaemonSet")} == SERVERS | AGENTS


def test_the_rest_of_the_platform_does_not_change(stack: Deployment) -> None:
    before = {json.dumps(manifest, sort_keys=True) for manifest in objects(usual())}
    assert before <= {json.dumps(manifest, sort_keys=True) for manifest in objects(stack)}
    assert quotas(stack) == quotas(usual())


# --- security


def test_pods_in_the_namespace_are_restricted_and_the_namespace_enforces_it(stack: Deployment) -> None:
    labels = only(stack, "Namespace", NAMESPACE)["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    own_pods = [pod for namespace, pod in pods(stack) if namespace == NAMESPACE]
    assert len(own_pods) == len(SERVERS) and all(map(is_restricted, own_pods))


@pytest.mark.parametrize("name", sorted(AGENTS))
def test_exporters_on_nodes_have_no_privileges_and_no_token(stack: Deployment, name: str) -> None:
    pod = only(stack, "DaemonSet", name, "kube-system")["spec"]["template"]["spec"]
    security = container(stack, "DaemonSet", name)["securityContext"]
    assert pod["automountServiceAccountToken"] is False and pod["tolerations"] == [{"operator": "Exists"}]
    assert not any(pod.get(key) for key in ("hostNetwork", "hostPID", "hostIPC"))
    assert security["capabilities"] == {"drop": ["ALL"]} and security["allowPrivilegeEscalation"] is False
    assert all(mount["readOnly"] for mount in container(stack, "DaemonSet", name)["volumeMounts"])


def test_node_exporter_does_not_run_as_root(stack: Deployment) -> None:
    assert only(stack, "DaemonSet", "node-exporter")["spec"]["template"]["spec"]["securityContext"]["runAsNonRoot"] is True


def rules_of(stack: Deployment, account: str) -> list[Any]:
    """Return the rules of all roles bound to a service account."""
    roles = {(role["kind"], role["metadata"]["name"], role["metadata"].get("namespace")): role for role in objects(stack)}
    rules: list[Any] = []
    for binding in objects(stack, "RoleBinding", "ClusterRoleBinding"):
        if any(subject["name"] == account and subject["namespace"] == NAMESPACE for subject in binding["subjects"]):
            reference = binding["roleRef"]
            rules += roles[(reference["kind"], reference["name"], binding["metadata"].get("namespace"))]["rules"]
    return rules


@pytest.mark.parametrize("account", ["prometheus", "kube-state-metrics"])
def test_permissions_only_read_and_reach_neither_secrets_nor_commands_in_pods(stack: Deployment, account: str) -> None:
    rules = rules_of(stack, account)
    assert rules and {verb for rule in rules for verb in rule["verbs"]} <= {"get", "list", "watch"}
    resources = {resource for rule in rules for resource in rule.get("resources", [])}
    assert resources <= {"nodes", "nodes/metrics", "pods", "deployments", "daemonsets", "jobs"}


def test_prometheus_lists_pods_only_where_it_reads_metrics(stack: Deployment) -> None:
    bindings = [binding for binding in objects(stack, "RoleBinding") if binding["subjects"][0]["name"] == "prometheus"]
    assert {binding["metadata"]["namespace"] for binding in bindings} == {NAMESPACE, "kube-system", "kueue-system"}
    scraped = file(stack, "prometheus", "prometheus.yml")["scrape_configs"]
    read = {name for job in scraped for sd in job["kubernetes_sd_configs"] for name in sd.get("namespaces", {}).get("names", [])}
    assert read == {binding["metadata"]["namespace"] for binding in bindings}


def test_only_prometheus_reaches_metrics(stack: Deployment) -> None:
    """Kueue and the kubelets need no network policy, because they authorize clients. EKS's agent has none, because it
    uses the host network, where network policies do not apply.
    """
    policies = [rule for rule in objects(stack, "NetworkPolicy") if rule["metadata"]["namespace"] in (NAMESPACE, "kube-system")]
    guarded = {}
    for policy in policies:
        spec = policy["spec"]
        assert spec["policyTypes"] == ["Ingress"]
        (rule,) = spec["ingress"]
        (source,) = rule["from"]
        guarded[spec["podSelector"].get("matchLabels", {}).get("app")] = source
    outside = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}},
        "podSelector": {"matchLabels": {"app": "prometheus"}},
    }
    assert guarded == {None: {"podSelector": {}}, **dict.fromkeys((*AGENTS, "cluster-autoscaler"), outside)}
    for name in (*AGENTS, "cluster-autoscaler"):
        (template,) = [
            manifest["spec"]["template"]["metadata"]["labels"]
            for manifest in objects(stack, "DaemonSet", "Deployment")
            if manifest["metadata"]["name"] == name
        ]
        assert template["app"] == name


# --- images, requests, probes


def test_every_container_has_a_version_requests_a_memory_limit_and_probes(stack: Deployment) -> None:
    for kind, name in [*(("Deployment", server) for server in SERVERS), *(("DaemonSet", agent) for agent in AGENTS)]:
        spec = container(stack, kind, name)
        assert re.fullmatch(r"[a-z0-9.-]+\.[a-z0-9]+/[a-z0-9/-]+:v?\d+\.\d+\.\d+[\w.-]*", spec["image"])
        assert set(spec["resources"]["requests"]) == {"cpu", "memory"} and set(spec["resources"]["limits"]) == {"memory"}
        assert bytes_of(spec["resources"]["limits"]["memory"]) >= bytes_of(spec["resources"]["requests"]["memory"])
        assert {"livenessProbe", "readinessProbe"} <= set(spec)


def test_image_registry_applies_to_monitoring(stack: Deployment) -> None:
    mirrored = deployed(asked(monitoring=True, imageRegistry="mirror.example.com/all"))
    assert container(mirrored, "Deployment", "prometheus")["image"].startswith("mirror.example.com/all/quay.io/")


# --- configuration


def test_prometheus_selects_the_labels_and_ports_of_running_pods(stack: Deployment) -> None:
    """The pods that Prometheus selects have the labels and the port that its configuration expects."""
    running = {
        (manifest["metadata"]["namespace"], port["containerPort"]): manifest["spec"]["template"]["metadata"]["labels"]
        for manifest in objects(stack, "Deployment", "DaemonSet")
        for port in manifest["spec"]["template"]["spec"]["containers"][0].get("ports", [])
    }
    for job in file(stack, "prometheus", "prometheus.yml")["scrape_configs"]:
        if job["job_name"] in ("kubelet", "eks-node-monitoring-agent"):
            continue
        (address,) = [relabeling for relabeling in job["relabel_configs"] if relabeling.get("target_label") == "__address__"]
        (namespace,) = job["kubernetes_sd_configs"][0]["namespaces"]["names"]
        labels = running[namespace, int(address["replacement"].rpartition(":")[2])]
        rules = [rule for rule in job["relabel_configs"] if "__meta_kubernetes_pod_label_" in rule["source_labels"][0]]
        written = {f"__meta_kubernetes_pod_label_{re.sub(r'[^a-z0-9]', '_', key)}": value for key, value in labels.items()}
        assert rules and all(re.fullmatch(rule["regex"], written[rule["source_labels"][0]]) for rule in rules), job["job_name"]


def test_the_certificates_of_eks_s_kubelets_are_checked(stack: Deployment) -> None:
    (kubelet,) = [job for job in file(stack, "prometheus", "prometheus.yml")["scrape_configs"] if job["job_name"] == "kubelet"]
    assert kubelet["scheme"] == "https" and kubelet["tls_config"] == {
        "ca_file": "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"
    }


def test_alerts_are_about_the_parts_that_the_stack_has(stack: Deployment) -> None:
    assert parts_with_alerts(stack) == {
        *("JobControllerDown", "KueueDown", "MpiOperatorDown", "ClusterAutoscalerDown", "NvidiaDevicePluginDown"),
        *("EfaDevicePluginDown", "EfsCsiDriverDown", "NodeMonitoringAgentDown"),
    }
    small = asked(SINGLE, monitoring=True, queue=False, autoscaler=False, trainer=True, storage={"efs": "none", "fsx": {}})
    assert parts_with_alerts(deployed(small)) == {
        *("JobControllerDown", "MpiOperatorDown", "JobSetDown", "TrainerDown", "NvidiaDevicePluginDown"),
        *("FsxCsiDriverDown", "NodeMonitoringAgentDown"),
    }


def test_an_alert_names_the_object_of_its_part(stack: Deployment) -> None:
    """Two names do not belong to objects of the stack, because EKS creates the objects of add-ons."""
    running = {
        (manifest["kind"].lower(), manifest["metadata"]["namespace"], manifest["metadata"]["name"])
        for manifest in objects(stack, "Deployment", "DaemonSet")
    }
    rules = next(group for group in file(stack, "prometheus", "rules.yml")["groups"] if group["name"] == "platform")["rules"]
    for rule in rules:
        ((namespace, kind, name),) = set(re.findall(r'namespace="([\w-]+)",(deployment|daemonset)="([\w-]+)"', rule["expr"]))
        assert (kind, namespace, name) in running or name in ("efs-csi-node", "eks-node-monitoring-agent"), rule["alert"]


def test_nodes_of_pools_have_on_demand_prices(stack: Deployment) -> None:
    (group,) = [group for group in file(stack, "prometheus", "rules.yml")["groups"] if group["name"] == "nodes-and-prices"]
    priced = {rule["labels"]["pool"]: rule["expr"] for rule in group["rules"] if "labels" in rule}
    snapshot = prices.snapshot("us-west-2")
    types = {pool.name: pool.instance_type for pool in description(stack).pools}
    by_pool = {name: snapshot.on_demand(kind) for name, kind in types.items()}
    assert priced == {name: f"vector({price.usd})" for name, price in by_pool.items() if price} and len(priced) > 1


def test_without_gpus_there_is_no_exporter_for_them() -> None:
    bare = deployed(asked(pool("cpu", "c7i.large", 2), monitoring=True))
    names = {daemon_set["metadata"]["name"] for daemon_set in objects(bare, "DaemonSet")}
    assert "node-exporter" in names and "dcgm-exporter" not in names


def test_dashboards_are_found_by_grafana_s_sidecar(stack: Deployment) -> None:
    config_map = only(stack, "ConfigMap", "gpumpi-dashboards", NAMESPACE)
    assert config_map["metadata"]["labels"] == {"grafana_dashboard": "1"}
    assert {json.loads(text)["uid"] for text in config_map["data"].values()} == {
        f"gpumpi-{name}" for name in ("cluster", "pool", "job", "gpu-health", "queue", "cost")
    }


# --- receivers


def test_metrics_and_alerts_go_to_the_receivers_with_the_users_secrets() -> None:
    url = "https://metrics.example.com/api/v1/push"
    sending = deployed(asked(monitoring=True, remoteWrite=url, remoteWriteLogin="receiver", alertReceiver="chat"))
    configuration = file(sending, "prometheus", "prometheus.yml")
    (receiver,) = configuration["remote_write"]
    assert receiver["url"] == url and configuration["global"]["external_labels"]["cluster"].startswith("gpumpi-")
    (hook,) = file(sending, "alertmanager", "alertmanager.yml")["receivers"][0]["webhook_configs"]
    for name, secret, path in (
        ("prometheus", "receiver", receiver["authorization"]["credentials_file"]),
        ("alertmanager", "chat", hook["url_file"]),
    ):
        pod = only(sending, "Deployment", name)["spec"]["template"]["spec"]
        (volume,) = [volume for volume in pod["volumes"] if "secret" in volume]
        # If the volume were not optional, `pulumi up` would wait for a Secret that users can create only in the new namespace.
        assert volume["secret"] == {"secretName": secret, "optional": True}
        (mount,) = [mount for mount in pod["containers"][0]["volumeMounts"] if mount["name"] == volume["name"]]
        assert path.rpartition("/")[0] == mount["mountPath"]


def test_a_new_configuration_restarts_alertmanager_and_not_prometheus(stack: Deployment) -> None:
    """Prometheus reloads its configuration files by itself. A new pod would start without the collected metrics."""

    def pod(stack: Deployment, name: str) -> Any:
        return only(stack, "Deployment", name)["spec"]["template"]

    changed = deployed(asked(monitoring=True, remoteWrite="https://metrics.example.com/push"))
    assert pod(changed, "prometheus") == pod(stack, "prometheus")
    assert "--enable-feature=auto-reload-config" in container(stack, "Deployment", "prometheus")["args"]
    assert "gpumpi.io/configuration" in pod(stack, "alertmanager")["metadata"]["annotations"]
