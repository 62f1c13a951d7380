"""`python -m bench.trust`: no surface does what hostile inputs say, and the judge sees it if one does."""

import importlib
import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from bench.trust import __main__ as trust
from bench.trust import job_files, job_folders, job_records, judge, notices, requests, stack_files, terminal
from bench.trust.folder_files import try_folder_names, try_git_folders
from bench.trust.judge import KINDS, Surface, try_surface
from cli import output
from cli.clusters.dashboard import server as dashboard
from cli.jobs.importing import formats
from cli.jobs.workdir import git_files, in_cluster, selection
from infra.config import stack_file
from infra.jobs import files
from infra.jobs.reading import check_job_values
from infra.platform.job_controller.in_pod import health, ignored
from localcloud import http_guard

bucket, notice = (importlib.import_module(f"gpumpi_join.{name}") for name in ("bucket", "notice"))  # bench.trust adds the path

COUNT, SEED = 200, 7


@pytest.mark.parametrize("name", trust.SURFACES)
def test_hostile_inputs_are_data_on_every_surface(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    result = try_surface(name, trust.SURFACES[name], SEED, COUNT)
    assert result.examples == [] and result.is_clean
    assert result.tried >= COUNT


DRAWN: list[Callable[[Random], Any]] = [
    lambda random: job_records.draw_object(random, 0),
    lambda random: job_folders.draw_config_map(random, 0),
    terminal.draw_line,
    notices.draw_notice,
    lambda random: stack_files.draw_stack(random, ["a: 1"], [{"a": 1}]),
    job_files.draw_import,
    lambda random: requests.draw_request(random, "token"),
    lambda random: requests.draw_authorization(random, "key"),
]


@pytest.mark.parametrize("draw", DRAWN)
def test_same_seed_draws_the_same_inputs(draw: Callable[[Random], Any]) -> None:
    first, again, other = ([repr(draw(random)) for _ in range(50)] for random in (Random("1"), Random("1"), Random("2")))
    assert first == again and first != other and len(set(first)) > 20


# --- the judge sees violations ---------------------------------------------------------------------------------------------


def delete_pod_of_others(self: Any, namespace: str, *_: Any) -> None:
    self._api.call("DELETE", "api/v1/namespaces/team-b/pods/victim")


def create_stored_manifest(cluster: Any, described: Any, record: Any, namespace: str) -> bool:
    cluster.create({"kind": "RoleBinding", "metadata": {"name": "x", "namespace": "kube-system", "labels": {}}})
    return True


def read_stack_unsafely(path: Path) -> stack_file.RawStack:
    with suppress(Exception):
        yaml.unsafe_load(path.read_text())
    return stack_file.RawStack("test", "", {})


def list_files_with_git(root: Path) -> list[str]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False).stdout.split()


def fail_with_key_error(*_: Any, **__: Any) -> Any:
    raise KeyError("x")


PLANTED: list[tuple[str, Surface, Any, str, Any]] = [
    ("crossed", job_records.try_records, ignored.IgnoredDocuments, "report", delete_pod_of_others),
    ("tracebacks", job_records.try_records, health.Guard, "run", lambda self, task, work: work()),
    ("executed", job_folders.try_folders, in_cluster, "_remove_record", create_stored_manifest),
    ("crossed", job_folders.try_folders, files, "FOLDER", ".gpumpi/jobs/../../others"),
    ("tracebacks", job_folders.try_folders, in_cluster, "read_record", fail_with_key_error),
    ("executed", terminal.try_terminal, output, "escape_controls", lambda text: text),
    ("lost", terminal.try_terminal, output, "escape_controls", lambda text: ""),
    ("crossed", notices.try_notices, bucket, "find_contradiction", lambda *_: ""),
    ("executed", notices.try_notices, notice, "_is_full_match", lambda pattern, value: isinstance(value, str)),
    ("executed", stack_files.try_stack_files, stack_file, "read_stack_file", read_stack_unsafely),
    ("tracebacks", stack_files.try_stack_files, stack_file, "read_stack_file", fail_with_key_error),
    ("tracebacks", job_files.try_job_files, formats, "import_job", fail_with_key_error),
    ("crossed", try_folder_names, selection, "explain_refusal", lambda *_: ""),
    ("executed", try_git_folders, git_files, "list_files", list_files_with_git),
    ("crossed", requests.try_dashboard, dashboard, "is_local_host", lambda host: True),
    ("executed", requests.try_local_cloud, http_guard, "find_refusal_reason", lambda *_: ""),
]


@pytest.mark.parametrize(("kind", "surface", "module", "name", "unsafe"), PLANTED)
def test_judge_sees_a_planted_violation(
    kind: str, surface: Surface, module: Any, name: str, unsafe: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    job_records.list_expected_requests()  # cached from here on: without the unsafe double
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, name, unsafe)
    result = try_surface("planted", surface, SEED, COUNT)
    assert result.violations[kind] > 0 and result.examples


@pytest.mark.parametrize("key", [5, None, True, "\ud800"])
def test_key_that_is_no_name_is_reported(key: Any) -> None:
    problems = check_job_values({**job_files.JOB, key: 1})
    assert f"{key!a}: is not the name of a setting. Write a name." in list(map(str, problems))


def test_command_exits_with_1_and_prints_the_input_of_a_violation(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "texts of jobs, logs and nodes -> terminal"
    monkeypatch.setattr(output, "escape_controls", lambda text: text)
    monkeypatch.setattr(sys, "argv", ["trust", "--count", "100", "--surface", name, "--json"])
    with pytest.raises(SystemExit) as ended:
        trust.main()
    document = json.loads(capsys.readouterr().out)
    assert ended.value.code == 1 and document["rows"][0]["executed"] > 0
    assert document["rows"][0].keys() == {"surface", "inputs", *KINDS}
    assert len(document["examples"]) == judge.EXAMPLES and document["examples"][0].startswith(f"{name}, input ")
