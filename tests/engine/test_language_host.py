"""The language host emulator runs programs as Pulumi's own language host would."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import grpc
import psutil
import pytest
from google.protobuf import empty_pb2
from pulumi.runtime.proto import language_pb2, language_pb2_grpc

from localcloud.engine import language_host
from localcloud.engine.aws.server import read_plugin_version
from localcloud.installed_programs import LANGUAGE_HOST, Programs
from localcloud.instance import LocalCloud
from localcloud.processes import ROOT
from testkit.projects import Project, kill_engine
from testkit.waiting import wait_until


@pytest.fixture(autouse=True)
def installed_language_host(cloud: LocalCloud) -> Iterator[None]:
    """Install our language host, because the local cloud prefers the language host of an official CLI on PATH."""
    own = cloud.bin / LANGUAGE_HOST
    had = own.exists()
    Programs(cloud.bin, print).install_language_host()
    yield
    if not had:
        own.unlink()


def test_a_run_error_is_shown_without_a_traceback_but_with_the_exit_code(project: Project) -> None:
    project.create('import pulumi\nraise pulumi.RunError("two problems:\\n  one\\n  two")\n')
    preview = project.run("preview")
    assert preview.exit_code != 0
    shown, added = preview.errors
    assert shown == "two problems:\n  one\n  two"
    assert added.endswith("non-zero exit code: 1"), "as with the official host"
    assert "Traceback" not in preview.output


@pytest.mark.parametrize(
    "place",
    ["stop_with_error('one problem')", "pulumi.Output.from_input(1).apply(lambda _: stop_with_error('one problem'))"],
)
def test_an_error_reported_by_the_program_is_shown_once_wherever_it_is_raised(project: Project, place: str) -> None:
    project.create(
        f"import sys\nsys.path.append({str(ROOT)!r})\nimport pulumi\nfrom infra.config.stopping import stop_with_error\n{place}\n"
    )
    preview = project.run("preview")
    assert preview.exit_code != 0
    assert preview.errors == ("one problem",)
    assert not [text for text in ("Traceback", "Warning", "non-zero exit code") if text in preview.output]


def test_a_bug_in_the_program_shows_only_its_own_source_lines_once(project: Project) -> None:
    project.create("from broken import work\n\nwork()\n")
    project.write("def work():\n    return 1 / 0\n", "broken.py")
    preview = project.run("preview")
    assert preview.exit_code != 0
    assert preview.output.count("ZeroDivisionError: division by zero") == 1
    files = re.findall(r'File ".*/(.+)"', preview.output.partition("Diagnostics:")[2])
    assert files == ["__main__.py", "broken.py"]


def test_program_output_is_shown(project: Project) -> None:
    project.create('import sys\nprint("on the one hand")\nprint("on the other", file=sys.stderr)\n')
    output = project.run("preview").output
    assert "on the one hand" in output
    assert "on the other" in output


def test_a_preview_does_not_affect_the_following_update(project: Project) -> None:
    project.create(
        """
        import builtins

        import pulumi

        pulumi.export("seen", hasattr(builtins, "seen"))
        builtins.seen = True
        """
    )
    project.run_pulumi("up", "--yes", "--stack", project.stack)
    assert json.loads(project.run_pulumi("stack", "output", "--json", "--stack", project.stack)) == {"seen": False}


def test_a_program_gets_its_configuration_and_its_folder(project: Project) -> None:
    project.create(
        """
        import os
        import sys

        import pulumi

        pulumi.export("names", [pulumi.get_project(), pulumi.get_stack()])
        pulumi.export("color", pulumi.Config().require_secret("color"))
        pulumi.export("here", os.path.samefile(os.getcwd(), os.path.dirname(__file__)))
        pulumi.export("dry", pulumi.runtime.is_dry_run())
        pulumi.export("first", os.path.samefile(sys.path[0], os.path.dirname(__file__)))
        """
    )
    project.configure("color", "red", "--secret")
    assert project.run("up").ok
    shown = json.loads(project.run_pulumi("stack", "output", "--json", "--show-secrets", "--stack", project.stack))
    assert shown == {"names": ["tiny", "dev"], "color": "red", "here": True, "dry": False, "first": True}
    assert "red" not in project.run_pulumi("stack", "output", "--json", "--stack", project.stack)


def test_a_project_can_set_another_folder_and_another_interpreter(project: Project) -> None:
    project.create("raise SystemExit('not this one')\n")
    program = project.folder / "program"
    python = project.folder / "environment" / "bin" / "python"
    for file in (program / "main.py", python):
        file.parent.mkdir(parents=True)
    (program / "main.py").write_text('import os, pulumi\npulumi.export("through", os.environ["THROUGH"])\n')
    python.write_text(f'#!/bin/sh\nTHROUGH=environment exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    runtime = "runtime: {name: python, options: {virtualenv: environment}}"
    (project.folder / "Pulumi.yaml").write_text(f"name: tiny\n{runtime}\nmain: program/main.py\n")
    up = project.run("up")
    assert up.ok, up.output
    assert json.loads(project.run_pulumi("stack", "output", "--json", "--stack", project.stack)) == {"through": "environment"}


@pytest.mark.checkpoints
@pytest.mark.parametrize("how", ["killed", "interrupted"])
def test_no_process_outlives_the_engine(project: Project, how: str) -> None:
    pids = project.folder / "pids"
    project.create(
        f"""
        import os
        import pathlib
        import time

        pathlib.Path({str(pids)!r}).write_text(f"{{os.getpid()}} {{os.getppid()}}\\n")
        time.sleep(600)
        """
    )
    with project.run_in_background("preview") as (engine, _):
        wait_until(lambda: pids.exists() and pids.read_text().endswith("\n"))
        program, host = (psutil.Process(int(pid)) for pid in pids.read_text().split())
        if how == "killed":
            kill_engine(engine)
        else:
            engine.send_signal(signal.SIGINT)
            engine.wait(30)
    wait_until(lambda: not program.is_running() and not host.is_running())


@pytest.fixture
def host_process() -> Iterator[tuple[subprocess.Popen[str], Any]]:
    """A language host process without an engine, and a client for it."""
    command = [sys.executable, "-m", "localcloud.engine.language_host", "127.0.0.1:1"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with grpc.insecure_channel(f"127.0.0.1:{process.stdout.readline().strip()}") as channel:
        yield process, language_pb2_grpc.LanguageRuntimeStub(channel)
    process.kill()
    process.wait()
    process.stdout.close()


def make_program_info(folder: Path) -> language_pb2.ProgramInfo:
    return language_pb2.ProgramInfo(root_directory=str(folder), program_directory=str(folder), entry_point=".")


def test_the_language_host_lists_the_plugins_of_installed_packages(host_process: Any, tmp_path: Path) -> None:
    _, stub = host_process
    answer = stub.GetRequiredPackages(language_pb2.GetRequiredPackagesRequest(info=make_program_info(tmp_path)))
    assert ("aws", "resource", read_plugin_version()) in [
        (package.name, package.kind, package.version) for package in answer.packages
    ]


def test_the_language_host_reports_its_version_and_the_packages_of_the_program(host_process: Any, tmp_path: Path) -> None:
    _, stub = host_process
    assert stub.GetPluginInfo(empty_pb2.Empty()).version.startswith("3.")
    about = stub.About(language_pb2.AboutRequest(info=make_program_info(tmp_path)))
    assert (about.executable, about.version) == (sys.executable, "{}.{}.{}".format(*sys.version_info[:3]))
    packages: dict[bool, set[str]] = {}
    for transitive in (False, True):
        request = language_pb2.GetProgramDependenciesRequest(info=make_program_info(tmp_path), transitiveDependencies=transitive)
        packages[transitive] = {package.name for package in stub.GetProgramDependencies(request).dependencies}
    assert "grpcio" in packages[True] - packages[False]
    assert packages[False] < packages[True]


def test_the_language_host_installs_nothing(host_process: Any, tmp_path: Path) -> None:
    _, stub = host_process
    with pytest.raises(grpc.RpcError) as failed:
        list(stub.InstallDependencies(language_pb2.InstallDependenciesRequest(info=make_program_info(tmp_path))))
    assert failed.value.details() == "dependencies are not installed here. Run pip install -r requirements.txt"


def test_the_language_host_stops_on_request(host_process: Any) -> None:
    process, _ = host_process
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 0


def test_the_response_of_a_canceled_run_follows_the_end_of_the_engines_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(language_host, "PATIENCE_SECONDS", 600)
    pid, program = tmp_path / "pid", tmp_path / "program.py"
    program.write_text(f"import os, time\nopen({str(pid)!r}, 'w').write(f'{{os.getpid()}}\\n')\ntime.sleep(600)\n")
    monkeypatch.setattr(language_host.language_exec, "get_cached_script_path", lambda: program)
    host, context, order = language_host.LanguageHost("127.0.0.1:1"), Mock(), list[str]()
    request = language_pb2.RunRequest(info=make_program_info(tmp_path))
    with ThreadPoolExecutor() as pool:
        run = pool.submit(host.Run, request, context)
        run.add_done_callback(lambda _: order.append("response"))
        wait_until(lambda: run.done() or (pid.exists() and pid.read_text().endswith("\n")))
        host.Cancel(empty_pb2.Empty(), context)
        wait_until(lambda: not psutil.pid_exists(int(pid.read_text())))
        order.append("call ended")
        for call in context.add_callback.call_args_list:
            call.args[0]()
    assert "-15" in run.result().error
    assert order == ["call ended", "response"]
