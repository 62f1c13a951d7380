"""`make conformance` and `local start --providers official`: the official programs are used only if they answer a
version query."""

import json
import shlex
from pathlib import Path

import pytest

from localcloud import officials
from localcloud.conformance import __main__ as conformance
from localcloud.conformance.lifecycle import Side, attempt, failure
from localcloud.engine.process import version_of
from localcloud.instance import LocalCloud
from localcloud.stack import LocalStack
from localcloud.tools.build import ensure
from localcloud.tools.catalogue import PULUMI
from testkit import simulated_plugins
from tests.cli.checkout import Checkout

pytestmark = pytest.mark.xdist_group("cli-stacks")

TINY = "config:\n  aws:region: us-west-2\n  gpumpi:target: {kind: eks}\n  gpumpi:storage: {efs: none}\n"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on PATH. It contains only the programs that the test puts there."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("GPUMPI_OFFICIAL_PROGRAMS", raising=False)
    return folder


def install(folder: Path, name: str, script: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    program.write_text(script)
    program.chmod(0o755)
    return program


def test_without_official_programs_nothing_is_compared(programs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert conformance.main([]) == 6
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4 and all(line.startswith("not run: ") for line in lines)
    assert lines[0] == (
        "not run: pulumi: pulumi is neither on PATH nor in the folder GPUMPI_OFFICIAL_PROGRAMS; "
        "install Pulumi 3.246.0: https://www.pulumi.com/docs/install/"
    )
    assert "pulumi plugin install resource aws v7.51.1" in lines[2]


def test_the_pulumi_of_a_local_cloud_is_not_the_official_one(programs: Path) -> None:
    install(programs, "pulumi", "#!/bin/sh\necho v3.246.0\n")
    assert officials.cli().version == "3.246.0"
    (programs.parent / "lock").touch()
    with pytest.raises(officials.NotInstalled, match="neither on PATH"):
        officials.cli()


def test_a_variable_names_a_folder_with_official_programs(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = programs.parent / "elsewhere"
    install(folder, "pulumi", "#!/bin/sh\necho v3.246.9\n")
    monkeypatch.setenv("GPUMPI_OFFICIAL_PROGRAMS", str(folder))
    assert officials.cli() == officials.Program("pulumi", folder / "pulumi", "3.246.9")


def test_another_release_of_the_cli_is_not_used(programs: Path) -> None:
    install(programs, "pulumi", "#!/bin/sh\necho v3.100.0\n")
    with pytest.raises(officials.NotInstalled, match=r"is version 3\.100\.0, not 3\.246; install Pulumi 3\.246\.0"):
        officials.cli()


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("#!/bin/sh\n", "it printed no port"),
        ("#!/bin/sh\necho hello\n", 'it printed "hello" instead of a port'),
        ("#!/bin/sh\necho 1\n", "is not a Pulumi plugin"),
        ("not a program", "is not a Pulumi plugin"),
    ],
)
def test_a_dummy_executable_is_not_a_plugin(programs: Path, script: str, reason: str) -> None:
    for file in ("pulumi-resource-kubernetes", "pulumi-language-python"):
        install(programs, file, script)
    for ask in (lambda: officials.provider("kubernetes"), officials.host):
        with pytest.raises(officials.NotInstalled, match=reason):
            ask()


@pytest.mark.parametrize(("version", "is_right"), [("4.34.2", True), ("4.34.9", True), ("4.33.0", False), ("", False)])
def test_a_plugin_is_asked_for_its_version(programs: Path, version: str, is_right: bool) -> None:
    plugin = simulated_plugins.install(programs.parent / "home", "kubernetes", version, folder_version="4.34.9")
    if is_right:
        assert officials.provider("kubernetes") == officials.Program("pulumi-resource-kubernetes", plugin, version)
    else:
        with pytest.raises(officials.NotInstalled, match=r"not 4\.34; install it: pulumi plugin install"):
            officials.provider("kubernetes")


def test_start_refuses_official_providers_that_are_not_installed(checkout: Checkout, home: Path, tmp_path: Path) -> None:
    said = checkout.local("start", home, "--providers", "official", "--no-kubernetes", shell={"PULUMI_HOME": str(tmp_path)})
    assert said.code == 4
    assert "pulumi-resource-aws is neither on PATH nor in the folder" in said.err
    assert not home.exists()


@pytest.mark.mission_only
def test_a_stack_lives_with_installed_plugins_instead_of_emulators(checkout: Checkout, home: Path, tmp_path: Path) -> None:
    """The plugins are simulated: our emulators under the official names."""
    (tmp_path / "Pulumi.tiny.yaml").write_text(TINY)
    files = {name: simulated_plugins.install(tmp_path, name) for name in officials.PROVIDERS}
    shell = {"PULUMI_HOME": str(tmp_path)}
    start = ("start", home, "--no-kubernetes", "--no-hosts")
    started = checkout.local(*start, "--providers", "official", shell=shell).succeeded()
    for name, file in files.items():
        assert f"using {file}, version {version_of(officials.PROVIDERS[name])}" in started.err
    assert [server["name"] for server in checkout.local("status", home, "--json").succeeded().json["servers"]] == ["aws"]

    cloud = LocalCloud(home)
    stack = LocalStack(cloud, "tiny", tmp_path)
    stack.prepare()
    up = stack.run("up")
    assert up.ok and up.changes["create"] > 50, up.output
    (aws,) = (one for one in stack.export()["deployment"]["resources"] if one["type"] == "pulumi:providers:aws")
    assert cloud.server("aws").url in aws["inputs"]["endpoints"], "the plugin uses the local AWS"
    assert stack.run("up").changes.keys() == {"same"}
    assert stack.run("refresh").ok
    assert stack.run("destroy").changes["delete"] == up.changes["create"]
    assert cloud.control().leftovers() == []

    assert checkout.local(*start).succeeded().err.startswith("local cloud is already running"), "it keeps its providers"
    refused = checkout.local(*start, "--providers", "emulated")
    assert (refused.code, refused.err) == (
        3,
        "cluster local start: the running local cloud uses --providers official. Stop it first: "
        f"scripts/cluster local stop --home {shlex.quote(str(home))}\n",
    )


def test_start_names_each_plugin_that_is_missing(checkout: Checkout, home: Path, tmp_path: Path) -> None:
    simulated_plugins.install(tmp_path, "aws")
    simulated_plugins.install(tmp_path, "kubernetes", "4.33.0", folder_version="4.34.2")
    said = checkout.local("start", home, "--providers", "official", "--no-kubernetes", shell={"PULUMI_HOME": str(tmp_path)})
    assert said.code == 4 and not home.exists()
    assert "is version 4.33.0, not 4.34; install it: pulumi plugin install resource kubernetes v4.34.2" in said.err


def test_a_local_cloud_with_an_official_plugin_needs_no_emulator(home: Path, tmp_path: Path) -> None:
    plugin = simulated_plugins.install(tmp_path, "kubernetes")
    cloud = LocalCloud(home)
    cloud.start(print, plugins={"kubernetes": plugin})
    assert [server.name for server in cloud.servers()] == ["aws", "provider"]
    assert cloud.is_running()
    assert cloud.environment()["PULUMI_DEBUG_PROVIDERS"] == f"aws:{cloud.server('provider').port}"
    assert (cloud.bin / "pulumi-resource-kubernetes").samefile(plugin)
    listed = cloud.environment()["PATH"].split(":")
    assert listed[0] == str(cloud.bin), "the engine finds plugins on PATH"


@pytest.mark.mission_only
def test_a_comparison_runs_both_sides_and_writes_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Our programs simulate the official ones, so both sides must give identical results."""
    (tmp_path / "Pulumi.tiny.yaml").write_text(TINY)
    official = tmp_path / "official"
    official.mkdir()
    (official / "pulumi").symlink_to(ensure(PULUMI, print))
    simulated_plugins.install_host(official)
    plugins = {f"{name} provider": simulated_plugins.install(tmp_path, name) for name in officials.PROVIDERS}
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path))
    monkeypatch.setenv("GPUMPI_OFFICIAL_PROGRAMS", str(official))
    monkeypatch.setattr(conformance, "STACKS", tmp_path)
    code = conformance.main(["--stacks", "tiny", "--no-kubernetes", "--report", str(tmp_path)])

    report = json.loads((tmp_path / "conformance.json").read_text())
    assert report["identical"], report["results"]
    assert {one["name"]: one["failures"] for one in report["results"]} == {"tiny": {}, "bad inputs": {}}
    assert report["versions"].keys() == {"pulumi", "pulumi-language-python", *plugins}
    assert all(str(path) in report["versions"][name] for name, path in plugins.items())
    assert (code, report["not_run"]) == (6, ["clusters: --no-kubernetes was given"])
    assert capsys.readouterr().out == (tmp_path / "conformance.md").read_text()


@pytest.mark.mission_only
def test_both_sides_of_a_stack_are_compared_step_by_step(cloud_home: Path, checkout: Checkout, tmp_path: Path) -> None:
    (tmp_path / "Pulumi.tiny.yaml").write_text(TINY)
    cloud = LocalCloud(cloud_home)
    ours = attempt(LocalStack(cloud, "tiny", tmp_path))
    assert isinstance(ours, Side) and failure(ours) is None, ours
    assert ours.steps["drift"] == ["VPC tag"]
    assert ours.steps["refresh after drift"]["changes"] == {"update": 1} == ours.steps["up after drift"]["changes"]
    assert ours.resources

    cloud.reset()
    cloud.control().plan_fault(service="ec2", operation="CreateVpc", code="VpcLimitExceeded", message="Enough.", times=9)
    theirs = attempt(LocalStack(cloud, "tiny", tmp_path))
    cloud.control().clear_faults()
    result = conformance.compared("tiny", ours, theirs)
    assert result.verdict == "failed" and "VpcLimitExceeded" in result.failures["theirs"]
    assert [text for text in result.differences if text.startswith("steps.up.ok")] == ["steps.up.ok: ours True, theirs False"]
