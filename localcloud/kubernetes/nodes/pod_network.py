"""Pods on a node: each linked to its node by a pair of interfaces and routed, as by EKS's network plugin.

https://www.cni.dev/plugins/current/main/ptp/
"""

import json
from ipaddress import IPv4Network


def cni_config(pods: IPv4Network) -> str:
    plugins = [
        {
            "type": "ptp",
            "ipMasq": False,
            "ipam": {"type": "host-local", "ranges": [[{"subnet": str(pods)}]], "routes": [{"dst": "0.0.0.0/0"}]},
        },
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ]
    return json.dumps({"cniVersion": "1.0.0", "name": "pods", "plugins": plugins}, indent=2) + "\n"
