"""`make conformance` and `local start --providers official`: the official programs are used only if they answer a
version query."""

import json
import shlex
from pathlib import Path

import pytest

from localcloud import officials
from localcloud.conformance import __main__ as conformance
from localcloud.conformance.lifecycle import Side, find_failure, run_side
from localcloud.engine.process import read_package_version
from localcloud.instance import LocalCloud
from localcloud.stack import LocalStack
from localcloud.tools.build import ensure_tool
from localcloud.tools.catalogue import PULUMI
from testkit import simulated_plugins
from tests.cli.checkout import Checkout

pytestmark = pytest.mark.xdist_group("cli-stacks")

TINY = "config:\n  aws:region: us-west-2\n  gpumpi:target: {kind: eks}\n  gpumpi:storage: {efs: none}\n"


@pytest.fixture
def program_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on PATH. The folder contains only the programs that the test puts there."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("GPUMPI_OFFICIAL_PROGRAMS", raising=False)
    return folder


def install_program(folder: Path, name: str, script: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    program.write_text(script)
    program.chmod(0o755)
    return program


def test_conformance_compares_nothing_without_official_programs(program_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert conformance.main([]) == 6
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4 and all(line.startswith("not run: ") for line in lines)
    assert lines[0] == (
        "not run: pulumi: pulumi is neither on PATH nor in the folder GPUMPI_OFFICIAL_PROGRAMS; "
        "install Pulumi 3.246.0: https://www.pulumi.com/docs/install/"
    )
    assert "pulumi plugin install resource aws v7.51.1" in lines[2]


def test_the_pulumi_binary_of_a_local_cloud_is_not_the_official_one(program_folder: Path) -> None:
    install_program(program_folder, "pulumi", "#!/bin/sh\necho v3.246.0\n")
    assert officials.find_cli().version == "3.246.0"
    (program_folder.parent / "lock").touch()
    with pytest.raises(officials.NotInstalled, match="neither on PATH"):
        officials.find_cli()


def test_environment_variable_sets_the_folder_of_official_programs(program_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = program_folder.parent / "elsewhere"
    install_program(folder, "pulumi", "#!/bin/sh\necho v3.246.9\n")
    monkeypatch.setenv("GPUMPI_OFFICIAL_PROGRAMS", str(folder))
    assert officials.find_cli() == officials.Program("pulumi", folder / "pulumi", "3.246.9")


def test_another_release_of_the_pulumi_cli_is_rejected(program_folder: Path) -> None:
    install_program(program_folder, "pulumi", "#!/bin/sh\necho v3.100.0\n")
    with pytest.raises(officials.NotInstalled, match=r"is version 3\.100\.0, not 3\.246; install Pulumi 3\.246\.0"):
        officials.find_cli()


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("#!/bin/sh\n", "it printed no port"),
        ("#!/bin/sh\necho hello\n", 'it printed "hello" instead of a port'),
        ("#!/bin/sh\necho 1\n", "is not a Pulumi plugin"),
        ("not a program", "is not a Pulumi plugin"),
    ],
)
def test_a_dummy_executable_is_rejected_as_a_plugin(program_folder: Path, script: str, reason: str) -> None:
    for file in ("pulumi-resource-kubernetes", "pulumi-language-python"):
        install_program(program_folder, file, script)
    for ask in (lambda: officials.find_provider("kubernetes"), officials.find_language_host):
        with pytest.raises(officials.NotInstalled, match=reason):
            ask()


@pytest.mark.parametrize(("version", "is_right"), [("4.34.2", True), ("4.34.9", True), ("4.33.0", False), ("", False)])
def test_the_version_reported_by_a_plugin_decides_whether_to_use_the_plugin(
    program_folder: Path, version: str, is_right: bool
) -> None:
    plugin = simulated_plugins.install_plugin(program_folder.parent / "home", "kubernetes", version, folder_version="4.34.9")
    if is_right:
        assert officials.find_provider("kubernetes") == officials.Program("pulumi-resource-kubernetes", plugin, version)
    else:
        with pytest.raises(officials.NotInstalled, match=r"not 4\.34; install it: pulumi plugin install"):
            officials.find_provider("kubernetes")


def test_start_fails_if_official_providers_are_not_installed(checkout: Checkout, home: Path, tmp_path: Path) -> None:
    said = checkout.run_local("start", home, "--providers", "official", "--no-kubernetes", shell={"PULUMI_HOME": str(tmp_path)})
    assert said.code == 4
    assert "pulumi-resource-aws is neither on PATH nor in the folder" in said.err
    assert not home.exists()


@pytest.mark.mission_only
def test_a_stack_can_use_installed_plugins_instead_of_emulators(checkout: Checkout, home: Path, tmp_path: Path) -> None:
    """The plugins are simulated: our emulators under the official names."""
    (tmp_path / "Pulumi.tiny.yaml").write_text(TINY)
    files = {name: simulated_plugins.install_plugin(tmp_path, name) for name in officials.PROVIDERS}
    shell = {"PULUMI_HOME": str(tmp_path)}
    start = ("start", home, "--no-kubernetes", "--no-hosts")
    started = checkout.run_local(*start, "--providers", "official", shell=shell).assert_success()
    for name, file in files.items():
        assert f"using {file}, version {read_package_version(officials.PROVIDERS[name])}" in started.err
    assert [
        server["name"] for server in checkout.run_local("status", home, "--json").assert_success().parsed_output["servers"]
    ] == ["aws"]

    cloud = LocalCloud(home)
    stack = LocalStack(cloud, "tiny", tmp_path)
    stack.prepare()
    up = stack.run("up")
    assert up.ok and up.changes["create"] > 50, up.output
    (aws,) = (
        resource for resource in stack.export_state()["deployment"]["resources"] if resource["type"] == "pulumi:providers:aws"
    )
    assert cloud.server("aws").url in aws["inputs"]["endpoints"], "the plugin uses the local AWS"
    assert stack.run("up").changes.keys() == {"same"}
    assert stack.run("refresh").ok
    assert stack.run("destroy").changes["delete"] == up.changes["create"]
    assert cloud.control().leftovers() == []

    assert checkout.run_local(*start).assert_success().err.startswith("local cloud is already running"), "it keeps its providers"
    refused = checkout.run_local(*start, "--providers", "emulated")
    assert (refused.code, refused.err) == (
        3,
        "cluster local start: the running local cloud uses --providers official. Stop it first: "
        f"scripts/cluster local stop --home {shlex.quote(str(home))}\n",
    )


def test_start_names_each_missing_plugin(checkout: Checkout, home: Path, tmp_path: Path) -> None:
    simulated_plugins.install_plugin(tmp_path, "aws")
    simulated_plugins.install_plugin(tmp_path, "kubernetes", "4.33.0", folder_version="4.34.2")
    said = checkout.run_local("start", home, "--providers", "official", "--no-kubernetes", shell={"PULUMI_HOME": str(tmp_path)})
    assert said.code == 4 and not home.exists()
    assert "is version 4.33.0, not 4.34; install it: pulumi plugin install resource kubernetes v4.34.2" in said.err


def test_a_local_cloud_with_an_official_plugin_does_not_start_its_emulator(home: Path, tmp_path: Path) -> None:
    plugin = simulated_plugins.install_plugin(tmp_path, "kubernetes")
    cloud = LocalCloud(home)
    cloud.start(print, plugins={"kubernetes": plugin})
    assert [server.name for server in cloud.servers()] == ["aws", "provider"]
    assert cloud.is_running()
    assert cloud.environment()["PULUMI_DEBUG_PROVIDERS"] == f"aws:{cloud.server('provider').port}"
    assert (cloud.bin / "pulumi-resource-kubernetes").samefile(plugin)
    listed = cloud.environment()["PATH"].split(":")
    assert listed[0] == str(cloud.bin), "the engine finds plugins on PATH"


@pytest.mark.mission_only
def test_comparison_runs_both_sides_and_writes_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Our programs simulate the official ones, so both sides must give identical results."""
    (tmp_path / "Pulumi.tiny.yaml").write_text(TINY)
    official = tmp_path / "official"
    official.mkdir()
    (official / "pulumi").symlink_to(ensure_tool(PULUMI, print))
    simulated_plugins.install_host(official)
    plugins = {f"{name} provider": simulated_plugins.install_plugin(tmp_path, name) for name in officials.PROVIDERS}
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path))
    monkeypatch.setenv("GPUMPI_OFFICIAL_PROGRAMS", str(official))
    monkeypatch.setattr(conformance, "STACKS", tmp_path)
    code = conformance.main(["--stacks", "tiny", "--no-kubernetes", "--report", str(tmp_path)])

    report = json.loads((tmp_path / "conformance.json").read_text())
    assert report["identical"], report["results"]
    assert {result["name"]: result["failures"] for result in report["results"]} == {"tiny": {}, "bad inputs": {}}
    assert report["versions"].keys() == {"pulumi", "pulumi-language-python", *plugins}
    assert all(str(path) in report["versions"][name] for name, path in plugins.items())
    assert (code, report["not_run"]) == (6, ["clusters: --no-kubernetes was given"])
    assert capsys.readouterr().out == (tmp_path / "conformance.md").read_text()


@pytest.mark.mission_only
def test_conformance_compares_both_sides_of_a_stack_step_by_step(cloud_home: Path, checkout: Checkout, tmp_path: Path) -> None:
    (tmp_path / "Pulumi.tiny.yaml").write_text(TINY)
    cloud = LocalCloud(cloud_home)
    ours = run_side(LocalStack(cloud, "tiny", tmp_path))
    assert isinstance(ours, Side) and find_failure(ours) is None, ours
    assert ours.steps["drift"] == ["VPC tag"]
    assert ours.steps["refresh after drift"]["changes"] == {"update": 1} == ours.steps["up after drift"]["changes"]
    assert ours.resources

    cloud.reset()
    cloud.control().plan_fault(service="ec2", operation="CreateVpc", code="VpcLimitExceeded", message="Enough.", times=9)
    theirs = run_side(LocalStack(cloud, "tiny", tmp_path))
    cloud.control().clear_faults()
    result = conformance.compare_stack("tiny", ours, theirs)
    assert result.verdict == "failed" and "VpcLimitExceeded" in result.failures["theirs"]
    assert [text for text in result.differences if text.startswith("steps.up.ok")] == ["steps.up.ok: ours True, theirs False"]
