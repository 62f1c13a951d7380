"""Pod network: a veth pair links each pod to its node, and packets are routed, as with the VPC CNI plugin.

https://www.cni.dev/plugins/current/main/ptp/
"""

import json
from ipaddress import IPv4Network


def build_cni_config(pods: IPv4Network) -> str:
    plugins = [
        {
            "type": "ptp",
            "ipMasq": False,
            "ipam": {"type": "host-local", "ranges": [[{"subnet": str(pods)}]], "routes": [{"dst": "0.0.0.0/0"}]},
        },
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ]
    return json.dumps({"cniVersion": "1.0.0", "name": "pods", "plugins": plugins}, indent=2) + "\n"
