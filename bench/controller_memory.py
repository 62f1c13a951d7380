"""`python -m bench.controller_memory`: peak memory of the job controller with many records of ended jobs and many running
jobs.

The controller runs as in its pod, as a process of its own, from the files of its ConfigMap. It reads all objects from a
local API server over TLS, and writes the records of the running jobs to it.
"""

import argparse
import json
import os
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psutil
from rich.console import Console
from rich.table import Table

from bench.platform_cluster import describe_machine, print_progress
from infra.naming import JOB_LABEL, LAUNCHER_LABEL, POLICY_ANNOTATION, RECORD_LABEL, ROLE_LABEL
from infra.platform.job_controller import component, program
from infra.platform.job_controller.in_pod import record
from localcloud.kubernetes.pki import Authority

RECORDS, WORKERS = 10_000, 64
"""Number of records of ended jobs, and workers of each ended job."""
JOBS, JOB_WORKERS = 200, 8
"""Number of running jobs, and workers of each."""
NAMESPACE, NODE_GPUS = "mpi-jobs", 8
LIMIT_SECONDS = 900.0
SETTLED_SECONDS = 15.0
"""Time after the last record was written, in which the controller runs some more rounds."""
CREATED, STARTED, ENDED = "2026-11-28T10:00:00Z", "2026-11-28T10:01:00Z", "2026-11-28T16:00:00Z"
START = """
import sys
from pathlib import Path
from job_controller import api, controller, health
api.ACCOUNT = Path(sys.argv[1])
serve = health.Health.serve_http
health.Health.serve_http = lambda self: serve(self, 0)
sys.exit(controller.main(sys.argv[2:]))
"""
"""Starts the controller's program with the folder of its service account, and with any free port for its health server."""
Object = dict[str, Any]


def build_ended_record(number: int, workers: int) -> Object:
    """Return the ConfigMap with the record of a torchrun job that ended after one attempt."""
    name, uid = f"train-{number:05}", build_uid(number)
    names = {build_uid(number, worker): f"{name}-{worker}-x7k2p" for worker in range(1, workers + 1)}
    document = record.create_record(uid, name, NAMESPACE, CREATED)
    record.enter_phase(document, record.Phase.RUNNING, STARTED)
    record.enter_phase(document, record.Phase.SUCCEEDED, ENDED)
    attempt = {"number": 1, "pods": names, "from": CREATED, "running": STARTED, "to": ENDED, "outcome": "Succeeded"}
    document["attempts"] = [{**attempt, "cause": "", "exits": [], "fault": "", "companions": {}}]
    where = {"type": "p5.48xlarge", "zone": "us-west-2a", "capacity": "on-demand", "pool": "train", "gpus": NODE_GPUS}
    document["workers"] = [
        {"uid": uid, "pod": pod, "node": f"ip-10-0-{worker}-17.us-west-2.compute.internal", **where, "from": STARTED, "to": ENDED}
        for worker, (uid, pod) in enumerate(names.items())
    ]
    document |= {"launcher": "torchrun", "size": workers, "pool": "train", "exitCode": 0, "admitted": CREATED}
    document["gpuSeconds"] = workers * NODE_GPUS * 21540.0
    assert record.is_valid_record(document)
    config_map = record.build_config_map(document)
    own = build_metadata(config_map["metadata"]["name"], number)
    return {**config_map, "metadata": {**own, **config_map["metadata"]}}


def build_uid(number: int, worker: int = 0) -> str:
    return f"{number:08x}-1111-4222-8333-{worker:012x}"


def build_metadata(name: str, number: int, worker: int = 0, **more: Any) -> Object:
    """Return the metadata that the API server adds, with the usual managed fields."""
    fields = {f"f:{key}": {"f:labels": {".": {}, f"f:{JOB_LABEL}": {}}} for key in ("metadata", "spec", "status")}
    managed = [{"manager": "kube-controller-manager", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": fields}] * 3
    times = {"creationTimestamp": CREATED, "uid": build_uid(number, worker), "resourceVersion": str(number + 1)}
    return {"name": name, "namespace": NAMESPACE, **times, "managedFields": managed, **more}


def build_template(role: str) -> Object:
    environment = [{"name": f"VARIABLE_{number}", "value": "v" * 40} for number in range(60)]
    limits = {"limits": {"nvidia.com/gpu": str(NODE_GPUS)}}
    return {"containers": [{"name": role, "image": "openmpi:5", "env": environment, "resources": limits}], "volumes": []}


def build_running_job(number: int, workers: int) -> Object:
    """Return the Job of a running torchrun job."""
    name, index = f"live-{number:05}", 10**7 + number
    labels = {JOB_LABEL: name, ROLE_LABEL: "job", LAUNCHER_LABEL: "torchrun"}
    policy = {"version": 1, "workers": workers, "maxRestarts": 3, "pool": "train"}
    metadata = build_metadata(name, index, labels=labels, annotations={POLICY_ANNOTATION: json.dumps(policy)})
    template = {"metadata": {"labels": labels}, "spec": build_template("worker")}
    spec = {"completionMode": "Indexed", "completions": workers, "parallelism": workers, "template": template}
    return {"metadata": metadata, "spec": spec, "status": {"startTime": CREATED, "active": workers}}


def build_worker(number: int, worker: int) -> Object:
    """Return a running pod of a running job."""
    name, index = f"live-{number:05}", 10**7 + number
    labels = {JOB_LABEL: name, ROLE_LABEL: "worker", "batch.kubernetes.io/job-completion-index": str(worker)}
    metadata = build_metadata(f"{name}-{worker}-x7k2p", index, worker + 1, labels=labels)
    ready = [{"type": kind, "status": "True", "lastTransitionTime": STARTED} for kind in ("PodScheduled", "Initialized", "Ready")]
    state = {"name": "worker", "ready": True, "image": "openmpi:5", "state": {"running": {"startedAt": STARTED}}}
    status = {"phase": "Running", "startTime": STARTED, "conditions": ready, "containerStatuses": [state]}
    return {"metadata": metadata, "spec": {**build_template("worker"), "nodeName": f"node-{number}-{worker}"}, "status": status}


def build_node(number: int, worker: int) -> Object:
    labels = {"gpumpi.io/pool": "train", "node.kubernetes.io/instance-type": "p5.48xlarge"}
    metadata = {**build_metadata(f"node-{number}-{worker}", 2 * 10**7 + number, worker), "labels": labels}
    images = [{"names": [f"registry.example/image-{index}:1"], "sizeBytes": 10**9} for index in range(50)]
    return {"metadata": metadata, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True"}], "images": images}}


class ApiServer(ThreadingHTTPServer):
    """API server with generated objects. Like Kubernetes, it returns pages only from etcd, not from its cache
    (`resourceVersion=0`)."""

    daemon_threads = True

    def __init__(self, folder: Path, records: int, workers: int, jobs: int, job_workers: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        certificate = Authority(folder).issue("kube-apiserver", addresses=["127.0.0.1"])
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate.file, certificate.key)
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        pods = [(number, worker) for number in range(jobs) for worker in range(job_workers)]
        template = json.dumps(build_ended_record(0, workers))
        inside = f"namespaces/{NAMESPACE}"
        self.collections: dict[str, tuple[int, Callable[[int], str]]] = {
            f"/api/v1/{inside}/configmaps": (records, lambda index: _renumber(template, index)),
            f"/apis/batch/v1/{inside}/jobs": (jobs, lambda index: json.dumps(build_running_job(index, job_workers))),
            f"/api/v1/{inside}/pods": (len(pods), lambda index: json.dumps(build_worker(*pods[index]))),
            "/api/v1/nodes": (len(pods), lambda index: json.dumps(build_node(*pods[index]))),
        }
        self.written: dict[str, Object] = {}
        """Objects that the controller has written, by name."""
        self.watched: set[str] = set()
        """Paths that the controller has listed completely and now watches."""
        self.is_stopping = threading.Event()

    def has_seen_all(self, jobs: int) -> bool:
        """Return whether the controller has read all objects and recorded the running jobs."""
        return self.collections.keys() <= self.watched and self.new_records >= jobs

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Do not log connections that the controller closes, such as that of a page which is too large."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)

    @property
    def new_records(self) -> int:
        return sum(RECORD_LABEL in (item["metadata"].get("labels") or {}) for item in list(self.written.values()))


def _renumber(template: str, number: int) -> str:
    return template.replace("00000000-1111", f"{number:08x}-1111").replace("train-00000", f"train-{number:05}")


class _Handler(BaseHTTPRequestHandler):
    protocol_version, disable_nagle_algorithm = "HTTP/1.1", True
    server: ApiServer

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(address.query).items()}
        count, build = self.server.collections.get(address.path, (0, str))
        if query.get("watch"):
            self.server.watched.add(address.path)
            self._send_headers(200)
            self.server.is_stopping.wait()
        elif address.path.rpartition("/")[2] in self.server.written:
            self._answer(200, self.server.written[address.path.rpartition("/")[2]])
        elif "/leases/" in address.path:
            self._answer(404, {"reason": "NotFound"})
        else:
            start = int(query.get("continue") or 0)
            size = int(query.get("limit") or count) if query.get("resourceVersion") != "0" else count
            following = str(start + size) if start + size < count else ""
            metadata = {"resourceVersion": "1", **({"continue": following} if following else {})}
            self._send_list(metadata, (build(index) for index in range(start, min(start + size, count))))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._answer(200, self._store(body))

    do_PUT = do_POST

    def _store(self, body: Object) -> Object:
        versions = {"uid": "uid", "resourceVersion": str(time.time_ns())}
        stored = {**body, "metadata": {**versions, **body["metadata"], "resourceVersion": versions["resourceVersion"]}}
        self.server.written[body["metadata"]["name"]] = stored
        return stored

    def _answer(self, status: int, body: Object) -> None:
        self._send_headers(status)
        self._send_chunk(json.dumps(body))
        self._send_chunk("")

    def _send_list(self, metadata: Object, items: Iterator[str]) -> None:
        self._send_headers(200)
        self._send_chunk(f'{{"kind":"List","apiVersion":"v1","metadata":{json.dumps(metadata)},"items":[')
        for number, batch in enumerate(iter(lambda: list(islice(items, 20)), [])):
            self._send_chunk(("," if number else "") + ",".join(batch))
        self._send_chunk("]}\n")
        self._send_chunk("")

    def _send_headers(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _send_chunk(self, text: str) -> None:
        data = text.encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def log_message(self, format: str, *args: object) -> None:
        """Do not log requests."""


def write_program(folder: Path) -> None:
    """Write the controller's files as the volume of its pod has them."""
    sources = program.read_module_sources()
    for item in program.list_volume_items():
        path = folder / item["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(sources[item["key"]], encoding="utf-8")


def read_peak_mib(pid: int) -> float:
    """Return the peak resident memory of a process. https://man7.org/linux/man-pages/man5/proc_pid_status.5.html"""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024


def measure_memory(records: int, workers: int, jobs: int, job_workers: int) -> dict[str, float]:
    """Return the controller's peak and current memory once it has read all objects and recorded all running jobs."""
    with TemporaryDirectory() as text:
        folder = Path(text)
        write_program(folder / "program")
        server = ApiServer(folder / "account", records, workers, jobs, job_workers)
        (folder / "account" / "token").write_text("token")
        threading.Thread(target=server.serve_forever, daemon=True).start()
        about = {
            **{"PYTHONPATH": str(folder / "program"), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"},
            **{"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(server.server_port)},
            **{"POD_NAMESPACE": "gpumpi-system", "PATH": os.environ["PATH"]},
        }
        command = [sys.executable, "-c", START, str(folder / "account"), NAMESPACE]
        with (folder / "log").open("w") as log:
            process = psutil.Popen(command, env=about, cwd=folder, stdout=log, stderr=subprocess.STDOUT)
            try:
                return _observe(process, server, jobs, folder / "log")
            finally:
                process.kill()
                process.wait()
                server.is_stopping.set()
                server.shutdown()


def _observe(process: psutil.Popen, server: ApiServer, jobs: int, log: Path) -> dict[str, float]:
    started, recorded = time.monotonic(), 0.0
    while not recorded or time.monotonic() - recorded < SETTLED_SECONDS:
        if process.poll() is not None:
            sys.exit(f"the controller ended:\n{log.read_text()[-4000:]}")
        if time.monotonic() - started > LIMIT_SECONDS:
            sys.exit(f"the controller has recorded {server.new_records} of {jobs} jobs after {LIMIT_SECONDS:.0f} s")
        if not recorded and server.has_seen_all(jobs):
            recorded = time.monotonic()
        time.sleep(0.2)
    times = process.cpu_times()
    return {
        "peak, MiB": round(read_peak_mib(process.pid), 1),
        "afterwards, MiB": round(process.memory_info().rss / 2**20, 1),
        "all jobs recorded, s": round(recorded - started, 1),
        "CPU, s": round(times.user + times.system, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--workers", type=int, default=WORKERS, help="number of workers of each ended job")
    parser.add_argument("--jobs", type=int, default=JOBS, help="number of running jobs")
    parser.add_argument("--job-workers", type=int, default=JOB_WORKERS, help="number of workers of each running job")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    limit = int(component.MEMORY_LIMIT.removesuffix("Mi"))
    rows = []
    for records, jobs in ((0, 0), (arguments.records, 0), (arguments.records, arguments.jobs)):
        print_progress(f"{records} records, {jobs} running jobs")
        measured = measure_memory(records, arguments.workers, jobs, arguments.job_workers)
        rows.append({"records": records, "running jobs": jobs, **measured})
    if arguments.json:
        print(json.dumps({**describe_machine(), "limitMib": limit, "rows": rows}, indent=1))
    else:
        table = Table(*rows[0], title=f"job controller, memory limit {limit} MiB")
        for row in rows:
            table.add_row(*map(str, row.values()))
        Console().print(table)
    sys.exit(1 if any(row["peak, MiB"] >= limit for row in rows) else 0)


if __name__ == "__main__":
    main()
