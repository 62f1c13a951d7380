"""CoreDNS of one cluster. As on EKS, pods reach CoreDNS at the address of the `kube-dns` service, which is in every pod's
resolv.conf.

CoreDNS runs in the VPC's network namespace, which has no route to the internet, so external names do not resolve.
"""

import logging
from typing import Any

from localcloud.kubernetes.running import RunningCluster
from localcloud.machine import network
from localcloud.tools.build import ensure_tool
from localcloud.tools.catalogue import COREDNS

log = logging.getLogger(__name__)

NAME = "coredns"
USER = "system:coredns"
READY_SECONDS = 60.0
READY_PORT = 8181
RECORD_SECONDS = 2
"""TTL of DNS records. It is short because jobs often start and stop workers."""


def start_dns(cluster: RunningCluster) -> None:
    """Start CoreDNS and wait until it is ready. Raises StartError."""
    for item in _build_objects(cluster):
        cluster.api.apply(item)
    kubeconfig = cluster.write_kubeconfig(cluster.pki.issue(USER), NAME)
    corefile = cluster.folder / "Corefile"
    corefile.write_text(
        build_corefile(str(cluster.addresses.router), str(cluster.addresses.dns), str(kubeconfig), cluster.region)
    )
    cluster.supervisor.start(NAME, [ensure_tool(COREDNS, log.info), "-conf", corefile])
    cluster.supervisor.await_ready(NAME, lambda: _is_ready(cluster), READY_SECONDS)


def build_corefile(router: str, service: str, kubeconfig: str, region: str) -> str:
    """Return the Corefile. CoreDNS resolves the names of pods and services with data from the API server, and node
    names from the IP address in the name."""
    zone = "ec2.internal" if region == "us-east-1" else f"{region}.compute.internal"
    return f"""\
.:53 {{
    bind {router} {service}
    errors
    ready 127.0.0.1:{READY_PORT}
    cache {RECORD_SECONDS} {{
        denial 1000 1
    }}
    template IN A {zone} {{
        match ^ip-(?P<a>[0-9]+)-(?P<b>[0-9]+)-(?P<c>[0-9]+)-(?P<d>[0-9]+)[.]
        answer "{{{{ .Name }}}} 60 IN A {{{{ .Group.a }}}}.{{{{ .Group.b }}}}.{{{{ .Group.c }}}}.{{{{ .Group.d }}}}"
        fallthrough
    }}
    kubernetes cluster.local in-addr.arpa {{
        kubeconfig {kubeconfig}
        pods insecure
        ttl {RECORD_SECONDS}
    }}
    template ANY ANY . {{
        rcode NXDOMAIN
    }}
}}
"""


def _is_ready(cluster: RunningCluster) -> bool:
    try:
        with network.connect(cluster.namespace, "127.0.0.1", READY_PORT, 2.0) as connection:
            connection.sendall(b"GET /ready HTTP/1.0\r\n\r\n")
            return b" 200 " in connection.recv(100)
    except OSError:
        return False


def _build_objects(cluster: RunningCluster) -> list[dict[str, Any]]:
    readable = [("", ("endpoints", "services", "pods", "namespaces")), ("discovery.k8s.io", ("endpointslices",))]
    rules = [{"apiGroups": [group], "resources": list(kinds), "verbs": ["list", "watch"]} for group, kinds in readable]
    rbac, ports = "rbac.authorization.k8s.io", [("dns", "UDP"), ("dns-tcp", "TCP")]
    metadata = {"name": "kube-dns", "namespace": "kube-system", "labels": {"k8s-app": "kube-dns"}}
    return [
        {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": {"name": USER}, "rules": rules},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": USER},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": USER},
            "subjects": [{"apiGroup": rbac, "kind": "User", "name": USER}],
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {
                "clusterIP": str(cluster.addresses.dns),
                "ports": [{"name": name, "protocol": protocol, "port": 53, "targetPort": 53} for name, protocol in ports],
            },
        },
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {**metadata, "labels": {"kubernetes.io/service-name": "kube-dns"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [str(cluster.addresses.router)], "conditions": {"ready": True}}],
            "ports": [{"name": name, "protocol": protocol, "port": 53} for name, protocol in ports],
        },
    ]
