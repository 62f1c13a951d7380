"""Read the local cloud's declaration that GPUs and EFA devices are emulated. Pure.

Only this declaration turns missing hardware into `not on this hardware`. The declaration counts only if every node
makes it, so that it never hides a broken node on AWS.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from infra.naming import EMULATED_DEVICES_FILE, EMULATED_LABEL


def of_nodes(nodes: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the declaration of each Kubernetes node with devices; empty unless all of them declare emulation."""
    found = {one["metadata"]["name"]: one["metadata"].get("labels", {}).get(EMULATED_LABEL) for one in nodes}
    if not all(value == "true" for value in found.values()):
        return {}
    return dict.fromkeys(found, f"the nodes declare emulated devices: label {EMULATED_LABEL}")


def of_hosts(files: Mapping[str, str]) -> dict[str, str]:
    """Return the declaration of each host; empty unless all of them declare emulation.

    `files`: host -> content of `EMULATED_DEVICES_FILE`, which is empty if the file does not exist on that host.
    """
    found: dict[str, str] = {}
    for host, text in files.items():
        try:
            declared = json.loads(text)
        except ValueError:
            return {}
        if not isinstance(declared, dict) or not declared:
            return {}
        found[host] = f"the hosts declare missing devices in {EMULATED_DEVICES_FILE}: {', '.join(map(str, declared.values()))}"
    return found


def text(emulated: Mapping[str, str]) -> str:
    """Return the text for `devices` in the report: the declarations or, without any, `hardware`."""
    return "; ".join(dict.fromkeys(emulated.values())) or "hardware"
