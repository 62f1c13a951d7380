"""`scripts/cluster dashboard` on a real cluster: the page shows a restarted job and respects user permissions."""

import json
import secrets
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cli.exit_codes import INTERRUPTED
from testkit.job_cluster import NAMESPACE, SOURCE, STACK, JobCluster, build_python_command, write_job_file
from testkit.waiting import LIMIT_SECONDS, wait_until

pytestmark = [pytest.mark.xdist_group("jobs"), pytest.mark.usefixtures("job_cleanup")]

FAILS_ONCE = """
import os, pathlib, signal, sys
seen = pathlib.Path("/shared") / sys.argv[1]
if os.environ["OMPI_COMM_WORLD_RANK"] == "0" and not seen.exists():
    seen.touch()
    sys.exit(3)
signal.pause()
"""
"""Program whose rank 0 fails in the first attempt."""


@contextmanager
def run_dashboard(cluster: JobCluster, *arguments: str) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """Run the dashboard, and yield its URL and its process."""
    with cluster.run_in_background("dashboard", "--json", *arguments) as process:
        assert process.stdout is not None
        text = process.stdout.read(1)
        while text.count("{") != text.count("}"):
            text += process.stdout.readline()
        yield json.loads(text)["url"], process


def fetch_data(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{url}data.json", timeout=60) as answer:
        data: dict[str, Any] = json.load(answer)
        return data


def find_cells(document: dict[str, Any], section: str, name: str) -> dict[str, Any]:
    rows = [row["cells"] for row in document[section]["rows"]]
    matching_cells: dict[str, Any] = next((cells for cells in rows if next(iter(cells.values()))["text"] == name), {})
    return matching_cells


def test_the_dashboard_shows_pools_nodes_cost_and_a_restarted_job(job_cluster: JobCluster, tmp_path: Path) -> None:
    file = write_job_file(
        tmp_path, "dash", command=[*build_python_command(FAILS_ONCE), f"dash-{secrets.token_hex(3)}"], maxRestarts=2
    )
    assert job_cluster.cluster("submit", file).code == 0
    with run_dashboard(job_cluster, "-s", STACK, "--config-dir", str(SOURCE)) as (url, process):

        def has_restarted(document: dict[str, Any]) -> bool:
            job = find_cells(document, "jobs", "dash")
            return bool(job) and (job["phase"]["text"], job["restarts"]["text"]) == ("Running", "1")

        data = wait_until(lambda: fetch_data(url), has_restarted)
        data = wait_until(lambda: fetch_data(url), lambda data: data["cost"]["rows"])
        assert (data["title"], data["stale"], data["unknown"]) == ("gpumpi-jobs", "", [])
        job = find_cells(data, "jobs", "dash")
        assert job["phase"]["note"].startswith("restarted: ") and "exit code 3" in job["phase"]["note"]
        assert {"training", "recovering"} <= {part["name"] for part in job["time"]["parts"]}
        assert find_cells(data, "pools", "train")["gpus"]["text"] == "2 of 2"
        nodes = [row["cells"] for row in data["nodes"]["rows"] if row["cells"]["pool"]["text"] == "train"]
        assert {node["jobs"]["text"] for node in nodes} == {f"{NAMESPACE}/dash"}
        assert find_cells(data, "cost", "pool train")["hours"]["text"] != "0.00"
        with pytest.raises(urllib.error.HTTPError, match="403"):
            fetch_data(url.rsplit("/", 2)[0] + "/")
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT_SECONDS) == INTERRUPTED


@pytest.fixture
def restricted_kubeconfig(job_cluster: JobCluster, tmp_path: Path) -> Iterator[Path]:
    """Kubeconfig of a service account that may only view the job namespace."""
    account = ("-n", NAMESPACE, "dashboard-viewer")
    binding = ("rolebinding", "-n", NAMESPACE, "dashboard-viewer")
    try:
        assert job_cluster.kubectl("create", "serviceaccount", *account).code == 0
        who = f"--serviceaccount={NAMESPACE}:dashboard-viewer"
        assert job_cluster.kubectl("create", *binding, "--clusterrole=view", who).code == 0
        token = job_cluster.kubectl("create", "token", *account).out.strip()
        config = job_cluster.kubectl("config", "view", "--raw", "--minify", "-o", "json").json
        config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
        file = tmp_path / "restricted"
        file.write_text(json.dumps(config))
        yield file
    finally:
        job_cluster.kubectl("delete", *binding)
        job_cluster.kubectl("delete", "serviceaccount", *account)


def test_the_dashboard_gives_the_reason_for_data_the_caller_cannot_read(
    job_cluster: JobCluster, restricted_kubeconfig: Path
) -> None:
    with run_dashboard(job_cluster, "--kubeconfig", str(restricted_kubeconfig)) as (url, _):
        data = fetch_data(url)
    assert data["nodes"]["rows"] == [] and "may not list Nodes" in data["nodes"]["empty"]
    assert data["tiles"][0]["value"] == "?" and data["stale"] == ""
    assert any("may not" in sentence for sentence in data["unknown"])
