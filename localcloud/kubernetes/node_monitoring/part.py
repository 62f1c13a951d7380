"""The part that runs node-problem-detector on GPU nodes while the EKS add-on eks-node-monitoring-agent is installed."""

import json
import logging

from infra.naming import NODE_MONITORING_AGENT
from localcloud.kubernetes.node_addon import NAMESPACE, NodeAddon
from localcloud.kubernetes.node_monitoring import rules
from localcloud.kubernetes.nodes.node import Node
from localcloud.tools.build import ensure_tool
from localcloud.tools.catalogue import NODE_PROBLEM_DETECTOR

log = logging.getLogger(__name__)

_RBAC = "rbac.authorization.k8s.io"
_CLUSTER_ROLES = f"/apis/{_RBAC}/v1/clusterroles"
USER = f"system:serviceaccount:{NAMESPACE}:{NODE_MONITORING_AGENT}"
PERMISSIONS = (
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "watch", "list"]},
    {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
)
"""https://github.com/aws/eks-node-monitoring-agent/blob/51af5494/charts/eks-node-monitoring-agent/templates/clusterrole.yaml"""


class NodeMonitoring(NodeAddon):
    addon = NODE_MONITORING_AGENT

    def install(self) -> None:
        api, name = self.cluster.api, self.addon
        api.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": NAMESPACE}})
        head = {"apiVersion": f"{_RBAC}/v1", "metadata": {"name": name}}
        api.apply({**head, "kind": "ClusterRole", "rules": list(PERMISSIONS)})
        role = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": name}
        subjects = [{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}]
        api.apply({**head, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": subjects})

    def uninstall(self) -> None:
        """Delete the agent's RBAC objects. The nodes keep their conditions, as on EKS."""
        api, name = self.cluster.api, self.addon
        api.delete(f"/apis/{_RBAC}/v1/clusterrolebindings/{name}")
        api.delete(f"{_CLUSTER_ROLES}/{name}")
        api.delete(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{name}")

    def start_on_node(self, node: Node, first: int) -> None:
        if not node.machine.type.has_nvidia_gpus:
            return
        cluster, name = self.cluster, self.get_process_name(node)
        file = node.own / "etc" / "node-problem-detector.json"
        file.write_text(json.dumps(rules.build_configuration(node.kernel_log), indent=1))
        kubeconfig = cluster.write_kubeconfig(cluster.pki.issue(USER, file=name), name)
        cluster.supervisor.start(
            name,
            [
                ensure_tool(NODE_PROBLEM_DETECTOR, log.info),
                f"--config.system-log-monitor={file}",
                f"--hostname-override={node.machine.name}",
                f"--apiserver-override=?inClusterConfig=false&auth={kubeconfig}",
                *("--port=0", "--prometheus-port=0"),
            ],
            namespace=node.place.namespace,
        )

    def get_process_name(self, node: Node) -> str:
        return f"node-problem-detector-{node.title}"
