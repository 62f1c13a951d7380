"""The job controller's code runs a script in a pod. The controller's service account may only run commands in pods."""

import base64
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from infra.platform.job_controller.in_pod import pod_exec, stacks
from infra.platform.job_controller.in_pod.api import Api
from testkit.eks_clusters import Running
from testkit.node_groups import build_pod, create_node_group, create_pods, wait_for_phase

pytestmark = pytest.mark.xdist_group("kubernetes")

RBAC = "rbac.authorization.k8s.io"
NAME = "asks-ranks"
RANK = """
import os, time
if os.environ.get("RANK") != "3":
    os.execve("/usr/bin/python3", ["python3", "-c", os.environ["PROGRAM"]], {**os.environ, "RANK": "3"})
"""
PROGRAM = "import time\ndef load():\n    time.sleep(10**6)\nprint('runs', flush=True)\nload()\n"


@pytest.fixture
def api(cluster: Running, tmp_path: Path) -> Iterator[Api]:
    """API client with only the controller's permission to run commands in pods."""
    base, core = f"/apis/{RBAC}/v1/namespaces/default", "/api/v1/namespaces/default/serviceaccounts"
    rule = {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get", "create"]}
    metadata = {"name": NAME, "namespace": "default"}
    cluster.api.create(core, {"metadata": metadata})
    cluster.api.create(f"{base}/roles", {"metadata": metadata, "rules": [rule]})
    reference = {"apiGroup": RBAC, "kind": "Role", "name": NAME}
    subjects = [{"kind": "ServiceAccount", "name": NAME, "namespace": "default"}]
    cluster.api.create(f"{base}/rolebindings", {"metadata": metadata, "roleRef": reference, "subjects": subjects})
    token_request = cluster.api.create(f"{core}/{NAME}/token", {"spec": {"expirationSeconds": 3600}})
    (tmp_path / "token").write_text(token_request["status"]["token"])
    config = yaml.safe_load(cluster.write_kubeconfig(tmp_path / "kubeconfig").read_text())["clusters"][0]["cluster"]
    context = ssl.create_default_context(cadata=base64.b64decode(config["certificate-authority-data"]).decode())
    host, _, port = config["server"].removeprefix("https://").partition(":")
    yield Api(host, int(port or 443), context, tmp_path / "token")
    for path in (f"{base}/rolebindings", f"{base}/roles", core):
        cluster.api.delete(f"{path}/{NAME}")


def test_the_stack_of_a_rank_can_be_read_through_the_api_server(cluster: Running, api: Api) -> None:
    with create_node_group(cluster, "asked", 1, "p4d.24xlarge") as group:
        (node,) = group.list_real_nodes()
        container = {"env": [{"name": "PROGRAM", "value": PROGRAM}]}
        rank = build_pod("rank", RANK, node=node, container=container)
        with create_pods(cluster, rank):
            wait_for_phase(cluster, "rank", "Running")
            command = ["sh", "-c", stacks.SCRIPT, "dump", stacks.PROGRAM, "job"]
            text = pod_exec.run_in_pod(api, "default", "rank", "main", command, 30)
    (stack_group,) = stacks.parse_dump([text]).groups()
    assert (stack_group["ranks"], stack_group["at"]) == ([3], "load (<string>:3)"), text
