"""Local cluster with the whole platform, accessed with `scripts/cluster` and a kubeconfig."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from tenacity import RetryError

from cli.clusters.kubernetes_access import Access
from cli.errors import NotFound
from cli.jobs import objects as job_objects
from localcloud.instance import LocalCloud
from localcloud.stack import LocalStack
from testkit.tokens import add_token
from testkit.waiting import wait_until

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "tests" / "kubernetes" / "data"
STACK, POOL, NAMESPACE = "jobs", "train", "mpi-jobs"
IMAGE = "openmpi:5"
LIMIT_SECONDS = 600.0
HOME_VARIABLE = "GPUMPI_TEST_CLOUD"
"""Environment variable for test development: the folder of a running local cloud. If it is set, tests use that cloud
and its stack, and leave both running.
"""


@dataclass(frozen=True)
class Done:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True)
class JobCluster:
    """A cluster, accessed as a user would from a shell."""

    cloud: LocalCloud
    kubeconfig: Path
    reuses_token: bool = False
    """Whether commands share a token. Otherwise, each command runs the kubeconfig's credential plugin."""

    @property
    def environment(self) -> dict[str, str]:
        variables = self.cloud.process_environment()
        used = add_token(self.kubeconfig, variables) if self.reuses_token else self.kubeconfig
        return variables | {"KUBECONFIG": str(used)}

    def cluster(self, *arguments: str, **environment: str) -> Done:
        """Run `scripts/cluster ...`."""
        command = [sys.executable, str(ROOT / "scripts" / "cluster"), *arguments]
        variables = self.environment | environment
        done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False)
        return Done(done.returncode, done.stdout, done.stderr)

    @contextmanager
    def run_in_background(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """Run `scripts/cluster ...` in the background; kill it if it runs too long."""
        command = [sys.executable, str(ROOT / "scripts" / "cluster"), *arguments]
        with subprocess.Popen(
            command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            limit = threading.Timer(LIMIT_SECONDS, process.kill)
            limit.start()
            try:
                yield process
            finally:
                limit.cancel()
                process.kill()

    def kubectl(self, *arguments: str, text: str | None = None) -> Done:
        command = ["kubectl", *arguments]
        done = subprocess.run(command, env=self.environment, input=text, capture_output=True, text=True, timeout=60, check=False)
        return Done(done.returncode, done.stdout, done.stderr)

    def list_objects(self, kind: str, selector: str = "", namespace: str = NAMESPACE) -> list[dict[str, Any]]:
        done = self.kubectl("get", kind, "-n", namespace, "-l", selector, "-o", "json")
        assert done.code == 0, done.err
        items: list[dict[str, Any]] = done.json["items"]
        return items

    def pods(self, job: str, role: str = "", namespace: str = NAMESPACE) -> list[dict[str, Any]]:
        more = f",gpumpi.io/role={role}" if role else ""
        return self.list_objects("pods", f"gpumpi.io/job={job}{more}", namespace)

    def read_hostfile(self, job: str) -> list[str]:
        """Return the lines of the hostfile that the launcher mounts."""
        result = self.kubectl("get", "configmap", f"{job}-config", "-n", NAMESPACE, "-o", "jsonpath={.data.hostfile}")
        assert result.code == 0, result.err
        return result.out.splitlines()

    def find_leftovers(self, job: str, *, deleted_with_kubectl: bool = False) -> list[str]:
        """Return the objects of a job that still exist.

        With `deleted_with_kubectl`, ignore the record of the job's files on the shared volume: it outlives `kubectl
        delete`, so that the job's logs can still be read.
        """
        kinds = "pods,jobs,statefulsets,services,configmaps,secrets,serviceaccounts,roles,rolebindings,mpijobs"
        objects = self.list_objects(kinds, f"gpumpi.io/job={job}" + (",gpumpi.io/role!=files" if deleted_with_kubectl else ""))
        return [f"{remaining['kind']}/{remaining['metadata']['name']}" for remaining in objects]

    def read_phase(self, job: str) -> str:
        """Return the phase that `jobs` shows. Starts no process, because polling with new processes would use a whole core."""
        kubeconfig = add_token(self.kubeconfig, self.cloud.process_environment())
        try:
            return job_objects.find_job(Access(kubeconfig).connect(), job, NAMESPACE).phase
        except NotFound:
            return "gone"

    def await_phase(self, job: str, *phases: str) -> str:
        """Wait until the job is in one of the phases. On a timeout, the error shows pods, events and launcher logs."""
        try:
            return str(wait_until(lambda: self.read_phase(job), lambda phase: phase in phases))
        except RetryError:
            raise AssertionError(
                f"job {job} is {self.read_phase(job)}, not {' or '.join(phases)}\n{self._collect_diagnostics()}"
            ) from None

    def _collect_diagnostics(self) -> str:
        """Return the pods, the nodes' CSI drivers, the end of the launcher logs and the last events. The text is short,
        because CI cuts off the start of long failure messages."""
        pods = self.kubectl("get", "pods", "-A", "-o", "wide").out
        drivers = self.kubectl("get", "csinodes").out
        launchers = self.kubectl(
            "logs", "-n", NAMESPACE, "-l", "gpumpi.io/role=launcher", "--prefix", "--tail=20", "--ignore-errors"
        )
        events = self.kubectl("get", "events", "-n", NAMESPACE, "--sort-by=.metadata.creationTimestamp").out.splitlines()
        return "\n".join([pods, drivers, launchers.out + launchers.err, *events[-20:]])


def write_job_file(folder: Path, name: str, **more: Any) -> str:
    """Write a job file and return its path."""
    least = {"name": name, "pool": POOL, "workers": 2, "image": IMAGE}
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump({**least, **more}))
    return str(path)


def build_python_command(text: str) -> list[str]:
    """Return a command that runs the given Python code."""
    return ["python3", "-u", "-c", text]


def deploy_cluster(folder: Path, name: str = STACK) -> Iterator[JobCluster]:
    """Deploy the stack with this name, yield its cluster, and stop the local cloud at the end."""
    home = os.environ.get(HOME_VARIABLE)
    cloud = LocalCloud(Path(home) if home else folder / "cloud")
    if not home:
        cloud.start(print, kubernetes=True)
    try:
        if not home:
            stack = LocalStack(cloud, name, SOURCE)
            stack.prepare()
            result = stack.run("up")
            assert result.ok, result.output[-4000:]
        yield get_job_cluster(cloud, name, folder)
    finally:
        if not home:
            cloud.stop()


def get_job_cluster(cloud: LocalCloud, stack: str, folder: Path, source: Path = SOURCE) -> JobCluster:
    """Return the cluster of a deployed stack. `source`: the folder with the stack file."""
    kubeconfig = folder / "kubeconfig.yaml"
    done = JobCluster(cloud, kubeconfig).cluster("kubeconfig", "-s", stack, "--config-dir", str(source), "-o", str(kubeconfig))
    assert done.code == 0, done.err
    return JobCluster(cloud, kubeconfig, reuses_token=True)
