"""`python -m bench.pod_lists`: measure the CPU time of listing one node's pods, which a drain does at least twice per
node.
"""

import argparse
import json
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
import urllib3
from rich.console import Console
from rich.table import Table

from testkit.control_plane import ControlPlane

PODS, LISTS = 1312, 200
"""Number of pods, as in bench.kubernetes_scale, and number of list requests per row."""
CURRENT: dict[str, str] = {}
"""Query for the current pods: the API server waits until its cache is as recent as etcd's data. With etcd before
3.5.13, the API server reads from etcd instead.
"""
CACHED = {"resourceVersion": "0"}
"""Query for the pods in the API server's cache, as in localcloud.kubernetes.nodes.drain."""
SERVERS = ("kube-apiserver", "etcd")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=PODS)
    parser.add_argument("--lists", type=int, default=LISTS)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with TemporaryDirectory() as folder:
        plane = ControlPlane(Path(folder) / "plane")
        plane.start()
        try:
            _create_pods(plane, arguments.pods)
            rows = [
                {"list": name, **_measure_lists(plane, query, arguments.lists)}
                for name, query in (("current", CURRENT), ("from the cache", CACHED))
            ]
        finally:
            plane.stop()
    if arguments.json:
        print(json.dumps({"pods": arguments.pods, "lists": arguments.lists, "rows": rows}, indent=1))
    else:
        _print_table(rows, arguments.pods)


def _print_table(rows: list[dict[str, Any]], pods: int) -> None:
    table = Table(*rows[0], title=f"list request for one node's pods in a cluster with {pods} pods")
    for row in rows:
        table.add_row(*(str(cell) for cell in row.values()))
    Console().print(table)


def _create_pods(plane: ControlPlane, count: int) -> None:
    """Create pods, each bound to its own node. Each pod is as large as a worker pod of an MPIJob."""
    environment = [{"name": f"VARIABLE_{number}", "value": "v" * 40} for number in range(60)]
    container = {"name": "worker", "image": "openmpi:5", "env": environment}
    with _make_connection_pool(plane) as pool:
        for number in range(count):
            metadata = {"name": f"pod-{number}", "namespace": "default"}
            spec = {"nodeName": f"node-{number}", "containers": [container]}
            body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
            _send_request(pool, plane, "POST", "/api/v1/namespaces/default/pods", body=json.dumps(body).encode())


def _measure_lists(plane: ControlPlane, query: dict[str, str], lists: int) -> dict[str, float]:
    """List the pods as a drain does. Return the milliseconds per list request: CPU time of each server, and elapsed
    time.
    """
    before, started = _read_cpu_seconds(plane), time.monotonic()
    with _make_connection_pool(plane) as pool:
        for number in range(lists):
            fields = {"fieldSelector": f"spec.nodeName=node-{number}", **query}
            pods = _send_request(pool, plane, "GET", "/api/v1/pods", fields=fields)["items"]
            assert len(pods) == 1
    elapsed, after = time.monotonic() - started, _read_cpu_seconds(plane)
    used = {f"{name}, CPU ms": after[name] - before[name] for name in SERVERS}
    return {name: round(seconds / lists * 1000, 1) for name, seconds in (*used.items(), ("elapsed, ms", elapsed))}


def _read_cpu_seconds(plane: ControlPlane) -> dict[str, float]:
    times = {name: psutil.Process(plane.processes[name].pid).cpu_times() for name in SERVERS}
    return {name: time.user + time.system for name, time in times.items()}


def _make_connection_pool(plane: ControlPlane) -> urllib3.PoolManager:
    return urllib3.PoolManager(ca_certs=str(plane.folder / "certificates" / "apiserver.crt"), retries=False)


def _send_request(pool: urllib3.PoolManager, plane: ControlPlane, method: str, path: str, **options: Any) -> Any:
    headers = {"Authorization": "Bearer root", "Content-Type": "application/json", "Accept": "application/json"}
    answer = pool.request(method, plane.url + path, headers=headers, timeout=60.0, **options)
    assert answer.status < 400, answer.data
    return json.loads(answer.data)


if __name__ == "__main__":
    main()
