"""Job logs in CloudWatch: how pods send their output, and how `logs` reads this output after the pods are deleted."""

import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import BotoCoreError, ClientError
from moto import mock_aws

from cli.errors import NotFound
from cli.jobs import cloudwatch_logs
from cli.jobs.workdir import places
from infra.jobs.cluster import ClusterDescription
from infra.jobs.in_pods import read_source, send_log
from infra.jobs.in_pods.send_log import Lines, Stream, send_lines
from tests.pure.job_world import make_cluster, placed, render_pods

GROUP, REGION = "/gpumpi/test/jobs", "us-west-2"
ERRORS = (BotoCoreError, ClientError)


@pytest.fixture
def logs_client(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    monkeypatch.setattr(send_log, "EVERY_SECONDS", 0.0)
    with mock_aws():
        client = boto3.client("logs", region_name=REGION)
        client.create_log_group(logGroupName=GROUP)
        yield client


def make_logged_cluster() -> ClusterDescription:
    return make_cluster(log_group=GROUP, region=REGION)


def send_output(logs: Any, stream: str, output: bytes, limit: int = 1 << 20) -> None:
    """Send the output of a pod to its log stream."""
    lines = Lines(limit)
    lines.read(io.BytesIO(output))
    send_lines(lines, Stream(logs, GROUP, stream), ERRORS)


def test_log_lines_are_read_back_in_order_by_pod(logs_client: Any) -> None:
    many = [f"step {number}" for number in range(25_000)]
    send_output(logs_client, "mpi-jobs/mnist/7/mnist-launcher-x2x4b", "\n".join(many).encode())
    send_output(logs_client, "mpi-jobs/mnist/7/mnist-worker-0", b"one\n\ntwo \xff\r\nno end")
    send_output(logs_client, "mpi-jobs/mnist/7/mnist-worker-0", b"after a restart of the container\n")
    assert cloudwatch_logs.read_logs(make_logged_cluster(), "mpi-jobs", "mnist") == {
        "mnist-launcher-x2x4b": many,
        "mnist-worker-0": ["one", "", "two \N{REPLACEMENT CHARACTER}", "no end", "after a restart of the container"],
    }


def test_only_the_last_run_of_a_job_is_read(logs_client: Any) -> None:
    for run, stream in enumerate(("mpi-jobs/mnist/b/mnist-0", "mpi-jobs/mnist/a/mnist-0", "mpi-jobs/mnist-2/c/mnist-2-0")):
        send_output(logs_client, stream, f"run {run}".encode())
    assert cloudwatch_logs.read_logs(make_logged_cluster(), "mpi-jobs", "mnist") == {"mnist-0": ["run 1"]}
    with pytest.raises(NotFound):
        cloudwatch_logs.read_logs(make_logged_cluster(), "mpi-jobs", "mni")


def test_missing_log_group_has_no_logs(logs_client: Any) -> None:
    logs_client.delete_log_group(logGroupName=GROUP)
    with pytest.raises(NotFound):
        cloudwatch_logs.read_logs(make_logged_cluster(), "mpi-jobs", "mnist")


def test_lines_longer_than_a_log_event_are_split(logs_client: Any) -> None:
    send_output(logs_client, "mpi-jobs/mnist/7/mnist-0", b"x" * 450_000)
    assert [len(line) for line in cloudwatch_logs.read_logs(make_logged_cluster(), "mpi-jobs", "mnist")["mnist-0"]] == [
        200_000,
        200_000,
        50_000,
    ]


def test_log_above_the_limit_ends_with_a_note(logs_client: Any) -> None:
    send_output(logs_client, "mpi-jobs/mnist/7/mnist-0", b"0123456789\n" * 100, limit=33)
    assert cloudwatch_logs.read_logs(make_logged_cluster(), "mpi-jobs", "mnist")["mnist-0"] == [
        *["0123456789"] * 3,
        "gpumpi: the rest of this log is not kept",
    ]


def test_lines_rejected_by_cloudwatch_are_dropped_and_counted(logs_client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(send_log, "WAITING_BYTES", 100)
    lines = Lines(1 << 20)
    lines.read(io.BytesIO(b"0123456789\n" * 5))
    stream = Stream(logs_client, GROUP, "mpi-jobs/mnist/7/mnist-0")
    send_lines(lines, stream, ERRORS)
    lines.read(io.BytesIO(b"again\n"))
    send_lines(lines, stream, ERRORS)
    assert cloudwatch_logs.read_logs(make_logged_cluster(), "mpi-jobs", "mnist")["mnist-0"] == [
        *["0123456789"] * 2,
        "gpumpi: 3 lines are missing here: CloudWatch accepted them too slowly",
        "again",
    ]


class Denied:
    """CloudWatch Logs client whose first requests are denied."""

    def __init__(self, logs: Any, times: int) -> None:
        self._logs, self._times = logs, times
        self.exceptions = logs.exceptions
        self.put_log_events = logs.put_log_events

    def create_log_stream(self, **where: str) -> None:
        self._times -= 1
        if self._times >= 0:
            raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "not yet"}}, "CreateLogStream")
        self._logs.create_log_stream(**where)


def test_no_line_is_lost_until_pod_identity_works(logs_client: Any, capsys: pytest.CaptureFixture[str]) -> None:
    send_output(Denied(logs_client, 3), "mpi-jobs/mnist/7/mnist-0", b"one\ntwo\n")
    assert cloudwatch_logs.read_logs(make_logged_cluster(), "mpi-jobs", "mnist")["mnist-0"] == ["one", "two"]
    assert capsys.readouterr().err.count("CloudWatch does not accept this log yet") == 1


def test_pod_without_permissions_ends_its_log_with_a_note(
    logs_client: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(send_log, "LAST_SECONDS", 0.0)
    send_output(Denied(logs_client, 1 << 30), "mpi-jobs/mnist/7/mnist-0", b"one\n")
    assert capsys.readouterr().err.splitlines()[-1] == "gpumpi: the last lines of this log are not kept"


# --- manifests ---------------------------------------------------------------------------------------------------------


def list_containers(launcher: str, **more: Any) -> list[dict[str, Any]]:
    place = places.choose_storage(placed(make_logged_cluster(), launcher=launcher, **more), None, 200)
    return [pod["containers"][0] for pod in render_pods(make_logged_cluster(), place.storage, launcher=launcher, **more).values()]


@pytest.mark.parametrize("launcher", ["mpijob", "standalone", "torchrun"])
def test_every_pod_writes_a_stream_that_ends_with_its_name(launcher: str) -> None:
    containers = list_containers(launcher, setup=["true"])
    assert len(containers) > 1 or launcher == "torchrun"
    for container in containers:
        values = {variable["name"]: variable.get("value") for variable in container["env"]}
        assert values["GPUMPI_LOG_GROUP"] == GROUP and values["GPUMPI_LOG_REGION"] == REGION
        namespace, name, _, pod = str(values["GPUMPI_LOG_STREAM"]).split("/")
        assert (namespace, name, pod) == ("mpi-jobs", "mnist", "$(GPUMPI_LOG_POD)")
        assert "send-log.py" in container["command"][2]


def test_logs_sent_to_cloudwatch_are_not_copied_to_the_volume(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    place = places.choose_storage(placed(make_logged_cluster()), tmp_path, 200)
    for container in (pod["containers"][0] for pod in render_pods(make_logged_cluster(), place.storage).values()):
        assert container["workingDir"].startswith("/shared/.gpumpi/jobs/mpi-jobs/mnist.")
        assert [variable["value"] for variable in container["env"] if variable["name"] == "GPUMPI_LOG"] == ["/tmp/log"]


# --- in the pod --------------------------------------------------------------------------------------------------------

WITHOUT_BOTO3 = "import sys; sys.modules['boto3'] = None\n"
COPIES = "import sys; open(sys.argv[1], 'wb').write(sys.stdin.buffer.read())\n"


def run_with_sender(
    folder: Path, script: str, program: str, path: str = os.environ["PATH"]
) -> "subprocess.CompletedProcess[str]":
    """Run a script as a container does, with `program` in place of the log sender."""
    sender = folder / "send-log.py"
    sender.write_text(program)
    whole = (read_source("send_log.sh") + read_source("log.sh") + script).replace("/tmp/output", f"{folder}/output")
    whole = whole.replace("python3 /tmp/send-log.py", f"{sys.executable} {sender} {folder}/sent")
    environment = {
        **{"PATH": path, "GPUMPI_LOG": f"{folder}/log", "GPUMPI_LOG_BLOCKS": "unlimited", "GPUMPI_LOG_BYTES": "1000"},
        **{"GPUMPI_LOG_GROUP": GROUP, "GPUMPI_LOG_STREAM": "a/b/c/d", "GPUMPI_LOG_REGION": REGION},
    }
    return subprocess.run(["/bin/sh", "-c", whole], env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("code", [0, 3])
def test_output_and_errors_are_printed_and_sent_and_exit_code_is_kept(tmp_path: Path, code: int) -> None:
    done = run_with_sender(tmp_path, f"set -eu; echo one; echo two >&2; (exec sleep 600) & exit {code}", COPIES)
    assert (done.returncode, done.stdout) == (code, "one\ntwo\n")
    assert (tmp_path / "sent").read_text() == "one\ntwo\n"


def test_a_sender_that_ends_early_does_not_stop_the_job(tmp_path: Path) -> None:
    many = "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i + 1)); done"
    done = run_with_sender(tmp_path, f"set -eu; {many}", "raise SystemExit(1)\n")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "line 19999")


def test_an_image_without_boto3_runs_and_the_log_names_what_is_missing(tmp_path: Path) -> None:
    done = run_with_sender(tmp_path, "set -eu; echo one", WITHOUT_BOTO3 + read_source("send_log.py"))
    assert (done.returncode, done.stdout) == (0, "one\n")
    assert "gpumpi: this log is not kept: python3 of the image has no boto3" in done.stderr


def test_an_image_without_python_runs_and_the_log_names_what_is_missing(tmp_path: Path) -> None:
    done = run_with_sender(tmp_path, "set -eu; echo one", COPIES, path="/nowhere")
    assert (done.returncode, done.stdout) == (0, "one\n")
    assert "gpumpi: this log is not kept: the image has no python3" in done.stderr
