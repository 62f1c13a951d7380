"""`python -m bench.objects`: compare the Kubernetes provider emulator with `kubectl apply --server-side` on 500 objects."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import grpc
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc
from rich.console import Console
from rich.table import Table

from localcloud.engine.codec import encode
from localcloud.engine.kubernetes import server
from localcloud.instance import LocalCloud
from localcloud.tools.build import ensure_tool
from localcloud.tools.catalogue import KUBECTL
from testkit.control_plane import ControlPlane, Objects
from testkit.kubernetes_projects import KubernetesProject
from testkit.projects import Project

COUNT = 500
PARALLEL = 16
"""Number of concurrent requests."""
PROGRAM = """
    for manifest in json.loads(pathlib.Path("objects.json").read_text()):
        made = {"ConfigMap": k8s.core.v1.ConfigMap, "Role": k8s.rbac.v1.Role, "Service": k8s.core.v1.Service}[manifest["kind"]]
        parts = {name: value for name, value in manifest.items() if name not in ("apiVersion", "kind")}
        made(manifest["metadata"]["name"], **parts, opts=opts)
"""


def make_manifests(count: int) -> list[dict[str, Any]]:
    """Return objects of three kinds that do not need Pulumi's await logic."""
    objects: list[dict[str, Any]] = []
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}
    for number in range(count):
        metadata = {"name": f"object-{number}", "labels": {"number": str(number)}}
        kinds: list[dict[str, Any]] = [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": "x" * 500}},
            {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata, "rules": [rule]},
            {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"clusterIP": "None", "ports": [{"port": 80}]}},
        ]
        objects.append(kinds[number % len(kinds)])
    return objects


def measure_pulumi(folder: Path, plane: ControlPlane, objects: list[dict[str, Any]]) -> dict[str, float]:
    """Return the seconds that each Pulumi operation took. The namespace is named after the folder."""
    namespace = folder.name
    plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    cloud = LocalCloud(folder / "cloud")
    cloud.start(lambda line: print(line, file=sys.stderr))
    try:
        kube = KubernetesProject(Project(cloud, folder / "project"), Objects(plane, namespace))
        kube.prepare(plane.kubeconfig())
        (folder / "project" / "objects.json").write_text(json.dumps(objects))
        kube.write(PROGRAM)
        seconds = {}
        for name, run in (("create", kube.up), ("unchanged", kube.up), ("refresh", kube.refresh), ("delete", kube.destroy)):
            started = time.monotonic()
            outcome = run()
            seconds[name] = time.monotonic() - started
            if not outcome.ok:
                sys.exit(f"pulumi, {name}, failed:\n{outcome.output}")
        return seconds
    finally:
        cloud.stop()


def measure_pulumi_no_checkpoints(folder: Path, plane: ControlPlane, objects: list[dict[str, Any]]) -> dict[str, float]:
    """Measure without checkpoints. The engine saves its state only at the end, and loses track of objects if it is killed."""
    with mock.patch.dict(os.environ, {"PULUMI_SKIP_CHECKPOINTS": "true"}):
        return measure_pulumi(folder, plane, objects)


def measure_emulator(plane: ControlPlane, objects: list[dict[str, Any]]) -> dict[str, float]:
    """Measure the emulator alone: send the engine's Check and Create requests directly and concurrently."""
    plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": "alone"}})
    running, port = server.start(0)
    try:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel, ThreadPoolExecutor(PARALLEL) as pool:
            stub = provider_pb2_grpc.ResourceProviderStub(channel)
            config = encode({"kubeconfig": plane.kubeconfig(), "namespace": "alone"})
            urn = "urn:pulumi:dev::tiny::pulumi:providers:kubernetes::cluster"
            stub.Configure(provider_pb2.ConfigureRequest(args=config, urn=urn, acceptSecrets=True))
            started = time.monotonic()
            list(pool.map(partial(_create_object, stub), objects))
            return {"create": time.monotonic() - started}
    finally:
        running.stop(None).wait()


def _create_object(stub: Any, manifest: dict[str, Any]) -> None:
    module = manifest["apiVersion"] if "/" in manifest["apiVersion"] else f"core/{manifest['apiVersion']}"
    urn = f"urn:pulumi:dev::tiny::kubernetes:{module}:{manifest['kind']}::{manifest['metadata']['name']}"
    checked = stub.Check(provider_pb2.CheckRequest(urn=urn, news=encode(manifest)))
    stub.Create(provider_pb2.CreateRequest(urn=urn, properties=checked.inputs))


def measure_kubectl(folder: Path, plane: ControlPlane, objects: list[dict[str, Any]]) -> dict[str, float]:
    plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": "kubectl"}})
    file, config = folder / "objects.json", folder / "kubeconfig"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    config.write_text(plane.kubeconfig())
    base = [str(ensure_tool(KUBECTL, print)), "--kubeconfig", str(config), "--namespace", "kubectl"]
    apply = ["apply", "--server-side", "-f", str(file)]
    seconds = {}
    for name, verb in (("create", apply), ("unchanged", apply), ("delete", ["delete", "-f", str(file)])):
        started = time.monotonic()
        ran = subprocess.run([*base, *verb], capture_output=True, text=True, check=False)
        seconds[name] = time.monotonic() - started
        if ran.returncode:
            sys.exit(f"kubectl, {name}, failed:\n{ran.stderr}")
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    objects = make_manifests(arguments.count)
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        plane = ControlPlane(folder / "plane")
        try:
            plane.start()
            kubectl = measure_kubectl(folder, plane, objects)
            alone = measure_emulator(plane, objects)
            pulumi = measure_pulumi(folder / "pulumi", plane, objects)
            once = measure_pulumi_no_checkpoints(folder / "saved-once", plane, objects)
        finally:
            plane.stop()
    rows = {
        "kubectl --server-side": kubectl,
        "emulator alone": alone,
        "pulumi with the emulator": pulumi,
        "pulumi, state saved once": once,
    }
    if arguments.json:
        print(json.dumps({"objects": len(objects), "seconds": rows}, indent=1))
        return
    table = Table(f"{len(objects)} objects", "create s", "to kubectl", "unchanged s", "refresh s", "delete s")
    for name, row in rows.items():
        cells = (f"{row[key]:.1f}" if key in row else "" for key in ("unchanged", "refresh", "delete"))
        table.add_row(name, f"{row['create']:.1f}", f"{row['create'] / kubectl['create']:.2f}", *cells)
    Console().print(table)


if __name__ == "__main__":
    main()
