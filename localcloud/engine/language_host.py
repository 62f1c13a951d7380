"""Pulumi language host for Python programs. Like `pulumi-language-python`, it implements LanguageRuntime.

The engine starts `pulumi-language-python` from PATH, which then starts this host. The engine reads the port from the
first line of the host's standard output. https://github.com/pulumi/pulumi/blob/master/proto/pulumi/language.proto
Like the official host, this host runs programs with Pulumi's own script:
pulumi/pulumi@v3.246.0:sdk/python/cmd/pulumi-language-python
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import language_pb2, language_pb2_grpc, plugin_pb2

from localcloud.engine import before_program, language_packages, peers
from localcloud.tools import language_exec

LOOK_FOR_ENGINE_SECONDS = 0.5
PATIENCE_SECONDS = 3.0
"""A program has this long to end after SIGTERM, before it gets SIGKILL. After a cancellation, the engine has this long to
end the call.
"""


class LanguageHost(language_pb2_grpc.LanguageRuntimeServicer):
    """gRPC service that runs each program in a new process, so that a preview cannot affect the update."""

    def __init__(self, engine: str) -> None:
        self.engine = engine
        self._programs: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._canceled = threading.Event()

    def Handshake(self, request: Any, context: grpc.ServicerContext) -> Any:
        return language_pb2.LanguageHandshakeResponse()

    def GetPluginInfo(self, request: Any, context: grpc.ServicerContext) -> Any:
        return plugin_pb2.PluginInfo(version=installed_version("pulumi"))

    def GetRequiredPackages(self, request: Any, context: grpc.ServicerContext) -> Any:
        plugins = language_packages.list_plugins(_find_interpreter(request.info))
        needed = [plugin_pb2.PackageDependency(kind="resource", **plugin._asdict()) for plugin in plugins]
        return language_pb2.GetRequiredPackagesResponse(packages=needed)

    def Run(self, request: Any, context: grpc.ServicerContext) -> Any:
        call_ended = threading.Event()
        context.add_callback(call_ended.set)
        code, environment = 0, _build_config_variables(request)
        if before_program.may_install_platform(request.config):
            words = (self.engine, request.stack, str(request.dryRun).lower())
            code = self._run_program([sys.executable, "-m", before_program.__name__, *words], environment, context)
        if not code:
            program = [
                str(_find_interpreter(request.info)),
                str(language_exec.get_cached_script_path()),
                *self._build_arguments(request),
            ]
            code = self._run_program(program, environment, context)
        if self._canceled.is_set():
            # A canceled engine does not wait for the response to Cancel. If the response arrived early, the engine
            # could report the exit code instead of the cancellation:
            # pulumi/pulumi@v3.246.0:pkg/resource/deploy/deployment_executor.go
            call_ended.wait(PATIENCE_SECONDS)
        if code == before_program.SHOWN:
            return language_pb2.RunResponse(bail=True)
        return language_pb2.RunResponse(error=f"Program exited with non-zero exit code: {code}" if code else "")

    def _run_program(self, command: list[str], environment: dict[str, str], context: grpc.ServicerContext) -> int:
        """Run a program until it ends or the engine ends the call."""
        program = subprocess.Popen(
            command,
            env=os.environ | environment | {"PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # the engine interrupts our process group, but only this host stops the program
        )
        with self._lock:
            self._programs.add(program)
        context.add_callback(lambda: _stop_program(program))
        code = program.wait()
        with self._lock:
            self._programs.discard(program)
        return code

    def About(self, request: Any, context: grpc.ServicerContext) -> Any:
        python = _find_interpreter(request.info)
        return language_pb2.AboutResponse(executable=str(python), version=language_packages.read_python_version(python))

    def GetProgramDependencies(self, request: Any, context: grpc.ServicerContext) -> Any:
        dependencies = language_packages.list_packages(_find_interpreter(request.info), transitive=request.transitiveDependencies)
        return language_pb2.GetProgramDependenciesResponse(
            dependencies=[language_pb2.DependencyInfo(name=name, version=version) for name, version in dependencies]
        )

    def InstallDependencies(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        """Return an error, because this project's make targets install its pinned dependencies."""
        context.abort(grpc.StatusCode.UNIMPLEMENTED, "dependencies are not installed here. Run pip install -r requirements.txt")
        yield from ()

    def RuntimeOptionsPrompts(self, request: Any, context: grpc.ServicerContext) -> Any:
        return language_pb2.RuntimeOptionsResponse()

    def Cancel(self, request: Any, context: grpc.ServicerContext) -> Any:
        self.stop_programs()
        return empty_pb2.Empty()

    def stop_programs(self) -> None:
        self._canceled.set()
        with self._lock:
            running = list(self._programs)
        for program in running:
            _stop_program(program)

    def _build_arguments(self, request: Any) -> list[str]:
        values = {
            "monitor": request.monitor_address,
            "engine": self.engine,
            "project": request.project,
            "root_directory": request.info.root_directory,
            "stack": request.stack,
            "pwd": request.pwd,
            "dry_run": str(request.dryRun).lower(),
            "parallel": str(request.parallel),
            "organization": request.organization,
        }
        options = [f"--{name}={value}" for name, value in values.items() if value]
        return [*options, "--", request.info.entry_point, *request.args]


def _build_config_variables(request: Any) -> dict[str, str]:
    return {
        "PULUMI_CONFIG": json.dumps(dict(request.config)),
        "PULUMI_CONFIG_SECRET_KEYS": json.dumps(list(request.configSecretKeys)),
    }


def _find_interpreter(info: Any) -> Path:
    options = info.options.fields
    virtualenv = options["virtualenv"].string_value if "virtualenv" in options else ""
    return language_packages.find_interpreter(info.root_directory, virtualenv)


def _stop_program(program: subprocess.Popen[bytes]) -> None:
    """Send SIGTERM to the program, and SIGKILL if it does not exit in time."""
    if program.poll() is None:
        program.terminate()
        try:
            program.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            program.kill()


def exit_with_engine(host: LanguageHost) -> None:
    """End this process and the programs that it runs when the engine exits."""
    engine = os.getppid()

    def watch_engine() -> None:
        while os.getppid() == engine:
            time.sleep(LOOK_FOR_ENGINE_SECONDS)
        host.stop_programs()
        os._exit(1)

    threading.Thread(target=watch_engine, daemon=True, name="end-with-engine").start()


def main() -> None:
    engine = next((argument for argument in reversed(sys.argv[1:]) if not argument.startswith("-")), "")
    host = LanguageHost(engine)
    exit_with_engine(host)
    stop_requested = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop_requested.set())
    server, port = peers.create_server(ThreadPoolExecutor(max_workers=8))
    language_pb2_grpc.add_LanguageRuntimeServicer_to_server(host, server)
    server.start()
    print(port, flush=True)
    stop_requested.wait()
    host.stop_programs()
    os._exit(0)  # the engine has received all responses and waits for this process to exit


if __name__ == "__main__":
    main()
