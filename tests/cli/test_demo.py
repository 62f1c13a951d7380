"""`scripts/cluster demo`, the first command that a new user runs."""

import fcntl
import json
from pathlib import Path
from typing import Any

import psutil
import pytest

from cli.demo import eks_demo
from cli.errors import CommandError
from localcloud.instance import LocalCloud
from localcloud.kubernetes import capability
from tests.cli.checkout import Checkout

pytestmark = pytest.mark.xdist_group("demo")

STEPS = [
    "build the images",
    "start the local cloud",
    "preview",
    "create",
    "check the nodes",
    "run an MPI job",
    "run again",
    "resize",
    "refresh",
    "revert the manual change",
    "destroy",
    "check for leftovers",
    "stop the local cloud",
]
NEED_NODES = ["build the images", "run an MPI job"]
"""Steps that are skipped on machines where no node can run containers."""


def test_the_demo_shows_a_cluster_lifecycle_and_leaves_nothing_behind(checkout: Checkout) -> None:
    done = checkout.cluster("demo", "--json")
    assert done.returncode == 0, done.stderr[-4000:]
    steps = json.loads(done.stdout)
    assert [step["step"] for step in steps] == STEPS
    assert all(step["ok"] != step["skipped"] for step in steps), "a skipped step is not ok"
    assert all(step["seconds"] > 0 or step["step"] == "build the images" for step in steps), steps
    assert [step["step"] for step in steps if step["skipped"]] == ([] if capability.check_machine().real_nodes else NEED_NODES)
    assert all(set(step) == {"step", "seconds", "ok", "skipped", "detail"} for step in steps)
    assert json.loads((checkout.folder / ".local" / "demo.json").read_text()) == steps
    lines = done.stderr.splitlines()
    results = [f"  {'skipped' if step['skipped'] else 'ok'} {step['seconds']} s  {step['detail']}" for step in steps]
    assert [line for line in lines if line in (*STEPS, *results)] == [
        line for pair in zip(STEPS, results, strict=True) for line in pair
    ]
    table = lines[max(number for number, line in enumerate(lines) if line.startswith("step ")) :]
    assert all(any(line.startswith(step) and (" ok " in line or " skipped " in line) for line in table) for step in STEPS), (
        "the output ends with a table"
    )
    assert not (checkout.folder / ".local" / "demo").exists()
    assert not _list_processes(checkout.folder / ".local" / "demo")


def test_a_failed_step_is_named_and_the_rest_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[LocalCloud] = []
    original = LocalCloud.start

    def start_with_fault(self: LocalCloud, report: Any, **options: Any) -> bool:
        original(self, report, **options)
        started.append(self)
        self.control().plan_fault(
            service="eks", operation="CreateCluster", code="AccessDeniedException", message="Not [today].", times=9
        )
        return True

    monkeypatch.setattr(LocalCloud, "start", start_with_fault)
    assert eks_demo.EksDemo.run_and_report(folder=tmp_path, as_json=True) == 1
    said = capsys.readouterr()
    steps = {step["step"]: step for step in json.loads(said.out)}
    assert [step for step in STEPS if not steps[step]["ok"] and not steps[step]["skipped"]] == ["create"]
    assert steps["stop the local cloud"]["ok"]
    assert "AccessDeniedException" in steps["create"]["detail"] and "Not [today]." in steps["create"]["detail"]
    assert all(steps[step]["skipped"] and steps[step]["detail"] == "an earlier step failed" for step in STEPS[4:-1])
    assert "Not [today]." in said.err, "Pulumi's own output is shown"
    assert "failed" in said.err and "skipped" in said.err
    assert not started[0].folder.exists()


def test_a_second_demo_in_the_same_folder_is_refused_at_once(tmp_path: Path) -> None:
    with (tmp_path / "demo.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(CommandError, match="another demo is already running in "):
            eks_demo.EksDemo.run_and_report(folder=tmp_path)
    assert not (tmp_path / "demo").exists()


def _list_processes(folder: Path) -> list[str]:
    command_lines = []
    for process in psutil.process_iter(["cmdline", "cwd"]):
        if str(folder) in " ".join([*(process.info["cmdline"] or []), process.info["cwd"] or ""]):
            command_lines.append(" ".join(process.info["cmdline"] or []))
    return command_lines
