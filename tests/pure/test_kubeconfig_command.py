"""`kubeconfig --output` adds a cluster to a kubeconfig, and leaves everything else in the file unchanged."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from cli import whole_files
from cli.exit_codes import FAILED, OK, REFUSED
from cli.main import app
from cli.stacks import kubeconfig_command
from infra.kubernetes import eks_credentials

NAME = "gpumpi-local"
OWN = json.loads(
    eks_credentials.render_eks_kubeconfig(
        name=NAME, endpoint="https://new.example", certificate_authority="MA==", region="us-west-2"
    )
)
OTHER: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Config",
    "preferences": {"colors": True},
    "clusters": [{"name": "a", "cluster": {"server": "https://a.example"}}],
    "users": [{"name": "u", "user": {"token": "0123", "username": "yes"}}],
    "contexts": [{"name": "a", "context": {"cluster": "a", "user": "u", "namespace": "team"}}],
    "current-context": "a",
}


@pytest.fixture(autouse=True)
def running_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubeconfig_command, "build_kubeconfig", lambda *_: OWN)


def run_kubeconfig(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["kubeconfig", "-s", "local", *map(str, arguments)])


def read_yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def read_file_mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_kubeconfig_entries_of_other_clusters_are_kept(tmp_path: Path) -> None:
    (file := tmp_path / "config").write_text(yaml.safe_dump(OTHER))
    assert run_kubeconfig("-o", file).exit_code == OK
    assert read_yaml(file) == {
        **OTHER,
        "clusters": [*OTHER["clusters"], *OWN["clusters"]],
        "users": [*OTHER["users"], *OWN["users"]],
        "contexts": [*OTHER["contexts"], *OWN["contexts"]],
        "current-context": NAME,
    }


def test_own_entries_are_replaced_in_place_and_keep_the_default_namespace(tmp_path: Path) -> None:
    file = tmp_path / "config"
    run_kubeconfig("-o", file)
    before = read_yaml(file)
    before["clusters"][0]["cluster"]["server"] = "https://old.example"
    before["contexts"][0]["context"]["namespace"] = "team-a"
    for kind in ("clusters", "users", "contexts"):
        before[kind].append(OTHER[kind][0])
    file.write_text(yaml.safe_dump(before))
    assert run_kubeconfig("-o", file).exit_code == OK
    after = read_yaml(file)
    assert [cluster["name"] for cluster in after["clusters"]] == [NAME, "a"]
    assert after["clusters"][0] == OWN["clusters"][0]
    assert after["contexts"][0]["context"] == {"cluster": NAME, "user": NAME, "namespace": "team-a"}


@pytest.mark.parametrize(
    "content", [None, "", "{}", "kind: Config\nclusters: null\n"], ids=["missing", "empty", "{}", "no clusters"]
)
def test_empty_or_missing_file_gets_the_entries_of_the_cluster(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "new" / "config"
    if content is not None:
        file.parent.mkdir()
        file.write_text(content)
    assert run_kubeconfig("-o", file).exit_code == OK
    assert read_yaml(file) == OWN and read_file_mode(file) == 0o600


@pytest.mark.parametrize("before", [0o644, 0o666, 0o600, 0o400])
def test_kubeconfig_is_always_readable_only_by_its_owner(tmp_path: Path, before: int) -> None:
    (file := tmp_path / "config").write_text(yaml.safe_dump(OTHER))
    file.chmod(before)
    assert run_kubeconfig("-o", file, "--json").exit_code == OK
    assert read_file_mode(file) == 0o600
    assert json.loads(file.read_text())["current-context"] == NAME


def test_kubeconfig_symlink_is_kept_and_its_target_is_updated(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (target := tmp_path / "real" / "config").write_text(yaml.safe_dump(OTHER))
    (link := tmp_path / "config").symlink_to("real/config")
    assert run_kubeconfig("-o", link).exit_code == OK
    assert link.is_symlink() and not target.is_symlink()
    assert read_yaml(target)["current-context"] == NAME and read_file_mode(target) == 0o600
    assert [path.name for path in target.parent.iterdir()] == ["config"]


def test_missing_target_of_a_kubeconfig_symlink_is_created(tmp_path: Path) -> None:
    (link := tmp_path / "config").symlink_to("real/config")
    assert run_kubeconfig("-o", link).exit_code == OK
    assert link.is_symlink() and read_yaml(tmp_path / "real" / "config") == OWN


@pytest.mark.parametrize(
    "content",
    [
        "config:\n  aws:region: us-west-2\n",
        "apiVersion: v1\nkind: Secret\n",
        "apiVersion: v1\nkind: Config\nusers: nobody\n",
        "hello",
        "[1]",
        "a: [",
        "\x00",
        "1: 2\n",
        b"\xff\xfe",
    ],
)
def test_invalid_kubeconfig_is_refused_and_left_unchanged(tmp_path: Path, content: str | bytes) -> None:
    before = content if isinstance(content, bytes) else content.encode()
    (file := tmp_path / "important").write_bytes(before)
    done = run_kubeconfig("-o", file)
    assert done.exit_code == REFUSED and len(done.output.splitlines()) == 1
    assert f"--output: {file} is not a" in done.output and "Choose another file." in done.output
    assert file.read_bytes() == before


@pytest.mark.parametrize("key", ["users", "clusters", "contexts"])
def test_kubeconfig_with_a_duplicate_key_is_refused_to_avoid_losing_entries(tmp_path: Path, key: str) -> None:
    before = yaml.safe_dump(OTHER) + f"{key}:\n- name: second\n"
    (file := tmp_path / "config").write_text(before)
    done = run_kubeconfig("-o", file)
    assert done.exit_code == REFUSED and len(done.output.splitlines()) == 1
    assert f"--output: {file}: {key} is set twice" in done.output
    assert file.read_text() == before


def test_directory_is_refused_as_kubeconfig_path(tmp_path: Path) -> None:
    done = run_kubeconfig("-o", tmp_path)
    assert done.exit_code == FAILED and f"cluster kubeconfig: {tmp_path}: is a directory." in done.output


def test_an_interrupted_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (file := tmp_path / "config").write_text(yaml.safe_dump(OTHER))

    def raise_interrupt(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(whole_files.os, "fsync", raise_interrupt)
    run_kubeconfig("-o", file)
    assert read_yaml(file) == OTHER and [path.name for path in tmp_path.iterdir()] == ["config"]


ENTRIES = st.lists(st.sampled_from([NAME, "a", "b", "Ü"]), unique=True)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.fixed_dictionaries(dict.fromkeys(("clusters", "users", "contexts"), ENTRIES)), current=st.sampled_from(["", "a"]))
def test_arbitrary_foreign_kubeconfig_entries_are_kept(tmp_path: Path, names: dict[str, list[str]], current: str) -> None:
    content = {
        kind: [{"name": name, kind[:-1]: {"x": name, "extensions": [{"name": "e"}]}} for name in called]
        for kind, called in names.items()
    }
    (file := tmp_path / "config").write_text(yaml.safe_dump({"kind": "Config", **content, "current-context": current}))
    assert run_kubeconfig("-o", file).exit_code == OK
    after = read_yaml(file)
    for kind, entries in content.items():
        assert [entry for entry in after[kind] if entry["name"] != NAME] == [entry for entry in entries if entry["name"] != NAME]
        assert len([entry for entry in after[kind] if entry["name"] == NAME]) == 1
