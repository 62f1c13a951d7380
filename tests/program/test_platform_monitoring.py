"""`platform.monitoring`: Prometheus, Alertmanager and exporters."""

import json
import re
from typing import Any

import pytest
import yaml

from infra.cost import prices
from infra.jobs.sizing import parse_bytes
from tests.program.engine import Deployment
from tests.program.platform_world import (
    SINGLE,
    deploy_default_platform,
    deploy_platform,
    find_object,
    list_manifests,
    list_pod_specs,
    make_settings,
    read_description,
    read_quotas,
)
from tests.program.test_platform import is_restricted
from tests.pure.world import pool

NAMESPACE = "gpumpi-monitoring"
SERVERS = {"prometheus", "alertmanager", "kube-state-metrics"}
AGENTS = {"node-exporter", "dcgm-exporter"}


@pytest.fixture(scope="module")
def stack() -> Deployment:
    return deploy_platform(make_settings(monitoring=True))


def read_config_file(stack: Deployment, config_map: str, name: str) -> Any:
    return yaml.safe_load(find_object(stack, "ConfigMap", config_map, NAMESPACE)["data"][name])


def list_parts_with_alerts(stack: Deployment) -> set[str]:
    (group,) = [group for group in read_config_file(stack, "prometheus", "rules.yml")["groups"] if group["name"] == "platform"]
    return {rule["alert"] for rule in group["rules"]}


def find_container(stack: Deployment, kind: str, name: str) -> Any:
    (container,) = find_object(stack, kind, name)["spec"]["template"]["spec"]["containers"]
    return container


def test_there_is_no_monitoring_by_default() -> None:
    names = {manifest["metadata"]["name"] for manifest in list_manifests(deploy_default_platform())}
    assert not names & {NAMESPACE, "gpumpi-dashboards", *SERVERS, *AGENTS}


def test_the_monitoring_setting_deploys_servers_and_exporters(stack: Deployment) -> None:
    added = {manifest["metadata"]["name"] for manifest in list_manifests(stack, "Deployment", "DaemonSet")}
    assert (
        added
        - {manifest["metadata"]["name"] for manifest in list_manifests(deploy_default_platform(), "Deployment", "DaemonSet")}
        == SERVERS | AGENTS
    )


def test_monitoring_does_not_change_the_rest_of_the_platform(stack: Deployment) -> None:
    before = {json.dumps(manifest, sort_keys=True) for manifest in list_manifests(deploy_default_platform())}
    assert before <= {json.dumps(manifest, sort_keys=True) for manifest in list_manifests(stack)}
    assert read_quotas(stack) == read_quotas(deploy_default_platform())


# --- security


def test_monitoring_pods_are_restricted_and_their_namespace_enforces_it(stack: Deployment) -> None:
    labels = find_object(stack, "Namespace", NAMESPACE)["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    own_pods = [pod for namespace, pod in list_pod_specs(stack) if namespace == NAMESPACE]
    assert len(own_pods) == len(SERVERS) and all(map(is_restricted, own_pods))


@pytest.mark.parametrize("name", sorted(AGENTS))
def test_node_exporters_have_no_privileges_and_no_token(stack: Deployment, name: str) -> None:
    pod = find_object(stack, "DaemonSet", name, "kube-system")["spec"]["template"]["spec"]
    security = find_container(stack, "DaemonSet", name)["securityContext"]
    assert pod["automountServiceAccountToken"] is False and pod["tolerations"] == [{"operator": "Exists"}]
    assert not any(pod.get(key) for key in ("hostNetwork", "hostPID", "hostIPC"))
    assert security["capabilities"] == {"drop": ["ALL"]} and security["allowPrivilegeEscalation"] is False
    assert all(mount["readOnly"] for mount in find_container(stack, "DaemonSet", name)["volumeMounts"])


def test_node_exporter_does_not_run_as_root(stack: Deployment) -> None:
    assert find_object(stack, "DaemonSet", "node-exporter")["spec"]["template"]["spec"]["securityContext"]["runAsNonRoot"] is True


def list_role_rules(stack: Deployment, account: str) -> list[Any]:
    """Return the rules of all roles bound to a service account."""
    roles = {(role["kind"], role["metadata"]["name"], role["metadata"].get("namespace")): role for role in list_manifests(stack)}
    rules: list[Any] = []
    for binding in list_manifests(stack, "RoleBinding", "ClusterRoleBinding"):
        if any(subject["name"] == account and subject["namespace"] == NAMESPACE for subject in binding["subjects"]):
            reference = binding["roleRef"]
            rules += roles[(reference["kind"], reference["name"], binding["metadata"].get("namespace"))]["rules"]
    return rules


@pytest.mark.parametrize("account", ["prometheus", "kube-state-metrics"])
def test_monitoring_permissions_are_read_only_and_exclude_secrets_and_pod_exec(stack: Deployment, account: str) -> None:
    rules = list_role_rules(stack, account)
    assert rules and {verb for rule in rules for verb in rule["verbs"]} <= {"get", "list", "watch"}
    resources = {resource for rule in rules for resource in rule.get("resources", [])}
    assert resources <= {"nodes", "nodes/metrics", "pods", "deployments", "daemonsets", "jobs"}


def test_prometheus_can_list_pods_only_in_namespaces_it_scrapes(stack: Deployment) -> None:
    bindings = [binding for binding in list_manifests(stack, "RoleBinding") if binding["subjects"][0]["name"] == "prometheus"]
    assert {binding["metadata"]["namespace"] for binding in bindings} == {NAMESPACE, "kube-system", "kueue-system"}
    scraped = read_config_file(stack, "prometheus", "prometheus.yml")["scrape_configs"]
    read = {name for job in scraped for sd in job["kubernetes_sd_configs"] for name in sd.get("namespaces", {}).get("names", [])}
    assert read == {binding["metadata"]["namespace"] for binding in bindings}


def test_only_prometheus_can_reach_metrics_endpoints(stack: Deployment) -> None:
    """The kubelets need no network policy, because they authorize clients. EKS's agent has no network policy, because it uses the
    host network, where network policies do not apply. tests/program/test_platform_network_policies.py tests Kueue's.
    """
    policies = [
        rule for rule in list_manifests(stack, "NetworkPolicy") if rule["metadata"]["namespace"] in (NAMESPACE, "kube-system")
    ]
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
            for manifest in list_manifests(stack, "DaemonSet", "Deployment")
            if manifest["metadata"]["name"] == name
        ]
        assert template["app"] == name


# --- images, requests, probes


def test_every_monitoring_container_has_a_version_requests_a_memory_limit_and_probes(stack: Deployment) -> None:
    for kind, name in [*(("Deployment", server) for server in SERVERS), *(("DaemonSet", agent) for agent in AGENTS)]:
        spec = find_container(stack, kind, name)
        assert re.fullmatch(r"[a-z0-9.-]+\.[a-z0-9]+/[a-z0-9/-]+:v?\d+\.\d+\.\d+[\w.-]*", spec["image"])
        assert set(spec["resources"]["requests"]) == {"cpu", "memory"} and set(spec["resources"]["limits"]) == {"memory"}
        assert parse_bytes(spec["resources"]["limits"]["memory"]) >= parse_bytes(spec["resources"]["requests"]["memory"])
        assert {"livenessProbe", "readinessProbe"} <= set(spec)


def test_the_image_registry_setting_applies_to_monitoring_images(stack: Deployment) -> None:
    mirrored = deploy_platform(make_settings(monitoring=True, imageRegistry="mirror.example.com/all"))
    assert find_container(mirrored, "Deployment", "prometheus")["image"].startswith("mirror.example.com/all/quay.io/")


# --- configuration


def test_prometheus_scrape_selectors_match_labels_and_ports_of_running_pods(stack: Deployment) -> None:
    """The pods that Prometheus selects have the labels and the port that its configuration expects."""
    running = {
        (manifest["metadata"]["namespace"], port["containerPort"]): manifest["spec"]["template"]["metadata"]["labels"]
        for manifest in list_manifests(stack, "Deployment", "DaemonSet")
        for port in manifest["spec"]["template"]["spec"]["containers"][0].get("ports", [])
    }
    for job in read_config_file(stack, "prometheus", "prometheus.yml")["scrape_configs"]:
        if job["job_name"] in ("kubelet", "eks-node-monitoring-agent"):
            continue
        (address,) = [relabeling for relabeling in job["relabel_configs"] if relabeling.get("target_label") == "__address__"]
        (namespace,) = job["kubernetes_sd_configs"][0]["namespaces"]["names"]
        labels = running[namespace, int(address["replacement"].rpartition(":")[2])]
        rules = [rule for rule in job["relabel_configs"] if "__meta_kubernetes_pod_label_" in rule["source_labels"][0]]
        written = {f"__meta_kubernetes_pod_label_{re.sub(r'[^a-z0-9]', '_', key)}": value for key, value in labels.items()}
        assert rules and all(re.fullmatch(rule["regex"], written[rule["source_labels"][0]]) for rule in rules), job["job_name"]


def test_prometheus_verifies_the_certificates_of_eks_kubelets(stack: Deployment) -> None:
    (kubelet,) = [
        job for job in read_config_file(stack, "prometheus", "prometheus.yml")["scrape_configs"] if job["job_name"] == "kubelet"
    ]
    assert kubelet["scheme"] == "https" and kubelet["tls_config"] == {
        "ca_file": "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"
    }


def test_alerts_exist_only_for_components_of_the_stack(stack: Deployment) -> None:
    assert list_parts_with_alerts(stack) == {
        *("JobControllerDown", "KueueDown", "MpiOperatorDown", "ClusterAutoscalerDown", "NvidiaDevicePluginDown"),
        *("EfaDevicePluginDown", "EfsCsiDriverDown", "NodeMonitoringAgentDown"),
    }
    small = make_settings(
        SINGLE, monitoring=True, queue=False, autoscaler=False, trainer=True, storage={"efs": "none", "fsx": {}}
    )
    assert list_parts_with_alerts(deploy_platform(small)) == {
        *("JobControllerDown", "MpiOperatorDown", "JobSetDown", "TrainerDown", "NvidiaDevicePluginDown"),
        *("FsxCsiDriverDown", "NodeMonitoringAgentDown"),
    }


def test_an_alert_names_the_object_of_its_component(stack: Deployment) -> None:
    """Two names do not belong to objects of the stack, because EKS itself creates the objects of add-ons."""
    running = {
        (manifest["kind"].lower(), manifest["metadata"]["namespace"], manifest["metadata"]["name"])
        for manifest in list_manifests(stack, "Deployment", "DaemonSet")
    }
    rules = next(group for group in read_config_file(stack, "prometheus", "rules.yml")["groups"] if group["name"] == "platform")[
        "rules"
    ]
    for rule in rules:
        ((namespace, kind, name),) = set(re.findall(r'namespace="([\w-]+)",(deployment|daemonset)="([\w-]+)"', rule["expr"]))
        assert (kind, namespace, name) in running or name in ("efs-csi-node", "eks-node-monitoring-agent"), rule["alert"]


def test_prometheus_rules_contain_the_on_demand_price_of_each_pool(stack: Deployment) -> None:
    (group,) = [
        group for group in read_config_file(stack, "prometheus", "rules.yml")["groups"] if group["name"] == "nodes-and-prices"
    ]
    priced = {rule["labels"]["pool"]: rule["expr"] for rule in group["rules"] if "labels" in rule}
    snapshot = prices.read_snapshot("us-west-2")
    types = {pool.name: pool.instance_type for pool in read_description(stack).pools}
    by_pool = {name: snapshot.on_demand(kind) for name, kind in types.items()}
    assert priced == {name: f"vector({price.usd})" for name, price in by_pool.items() if price} and len(priced) > 1


def test_there_is_no_gpu_exporter_without_gpus() -> None:
    bare = deploy_platform(make_settings(pool("cpu", "c7i.large", 2), monitoring=True))
    names = {daemon_set["metadata"]["name"] for daemon_set in list_manifests(bare, "DaemonSet")}
    assert "node-exporter" in names and "dcgm-exporter" not in names


def test_dashboards_have_the_label_that_the_grafana_sidecar_selects(stack: Deployment) -> None:
    config_map = find_object(stack, "ConfigMap", "gpumpi-dashboards", NAMESPACE)
    assert config_map["metadata"]["labels"] == {"grafana_dashboard": "1"}
    assert {json.loads(text)["uid"] for text in config_map["data"].values()} == {
        f"gpumpi-{name}" for name in ("cluster", "pool", "job", "gpu-health", "queue", "cost")
    }


# --- receivers


def test_metrics_and_alerts_are_sent_to_the_receivers_with_user_provided_secrets() -> None:
    url = "https://metrics.example.com/api/v1/push"
    sending = deploy_platform(make_settings(monitoring=True, remoteWrite=url, remoteWriteLogin="receiver", alertReceiver="chat"))
    configuration = read_config_file(sending, "prometheus", "prometheus.yml")
    (receiver,) = configuration["remote_write"]
    assert receiver["url"] == url and configuration["global"]["external_labels"]["cluster"].startswith("gpumpi-")
    (hook,) = read_config_file(sending, "alertmanager", "alertmanager.yml")["receivers"][0]["webhook_configs"]
    for name, secret, path in (
        ("prometheus", "receiver", receiver["authorization"]["credentials_file"]),
        ("alertmanager", "chat", hook["url_file"]),
    ):
        pod = find_object(sending, "Deployment", name)["spec"]["template"]["spec"]
        (volume,) = [volume for volume in pod["volumes"] if "secret" in volume]
        # If the volume were not optional, `pulumi up` would wait for a Secret that users can create only in the new namespace.
        assert volume["secret"] == {"secretName": secret, "optional": True}
        (mount,) = [mount for mount in pod["containers"][0]["volumeMounts"] if mount["name"] == volume["name"]]
        assert path.rpartition("/")[0] == mount["mountPath"]


def test_a_new_configuration_restarts_alertmanager_but_not_prometheus(stack: Deployment) -> None:
    """Prometheus reloads its configuration files by itself. A new pod would start without the collected metrics."""

    def read_pod_template(stack: Deployment, name: str) -> Any:
        return find_object(stack, "Deployment", name)["spec"]["template"]

    changed = deploy_platform(make_settings(monitoring=True, remoteWrite="https://metrics.example.com/push"))
    assert read_pod_template(changed, "prometheus") == read_pod_template(stack, "prometheus")
    assert "--enable-feature=auto-reload-config" in find_container(stack, "Deployment", "prometheus")["args"]
    assert "gpumpi.io/configuration" in read_pod_template(stack, "alertmanager")["metadata"]["annotations"]
