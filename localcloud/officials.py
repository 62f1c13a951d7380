"""Find Pulumi's official programs on this machine: the CLI, the language host and the resource providers.

A program counts as installed only if it answers a version query; a file with the right name is not enough.
"""

import json
import os
import selectors
import shutil
import subprocess
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import language_pb2_grpc, provider_pb2_grpc

from localcloud.engine.process import read_package_version
from localcloud.environment import OFFICIAL_PROGRAMS, strip_local_clouds_from_path
from localcloud.tools.catalogue import PULUMI

ANSWER_SECONDS: Final = 60.0
CLI, HOST = "pulumi", "pulumi-language-python"
PROVIDERS: Final[Mapping[str, str]] = {"aws": "pulumi_aws", "kubernetes": "pulumi_kubernetes"}
"""Maps a provider to the Python package of its SDK. The major and minor versions of the plugin and the SDK must be equal."""


class NotInstalled(Exception):
    """An official program is missing or unusable. The message gives the reason and tells how to install the program."""


@dataclass(frozen=True)
class Program:
    """An installed official program that was run successfully."""

    name: str
    path: Path
    version: str


def find_cli() -> Program:
    """Return the installed CLI. Raises NotInstalled."""
    fix = f"install Pulumi {PULUMI.version}: https://www.pulumi.com/docs/install/"
    path = _find_program(CLI, fix)
    answer = subprocess.run([path, "version"], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    return _require_same_minor_version(CLI, path, answer.stdout.strip().removeprefix("v"), PULUMI.version, fix)


def find_language_host() -> Program:
    """Return the installed Python language host. Raises NotInstalled."""
    fix = f"it comes with Pulumi {PULUMI.version}: https://www.pulumi.com/docs/install/"
    path = _find_beside_cli(HOST) or _find_program(HOST, fix)
    version = _query_version(path, language_pb2_grpc.LanguageRuntimeStub, fix)
    return _require_same_minor_version(HOST, path, version, PULUMI.version, fix)


def find_provider(name: str) -> Program:
    """Return an installed provider whose version matches the SDK. Raises NotInstalled."""
    sdk_version, file = read_package_version(PROVIDERS[name]), f"pulumi-resource-{name}"
    fix = f"install it: pulumi plugin install resource {name} v{sdk_version}"
    path = _find_plugin(name, sdk_version) or _find_program(file, fix)
    version = _query_version(path, provider_pb2_grpc.ResourceProviderStub, fix)
    return _require_same_minor_version(file, path, version, sdk_version, fix)


def _find_program(file: str, fix: str) -> Path:
    path = shutil.which(file, path=strip_local_clouds_from_path())
    if path is None:
        raise NotInstalled(f"{file} is neither on PATH nor in the folder {OFFICIAL_PROGRAMS}; {fix}")
    return Path(path)


def _find_beside_cli(file: str) -> Path | None:
    own = shutil.which(CLI, path=strip_local_clouds_from_path())
    beside = Path(own).resolve().with_name(file) if own else None
    return beside if beside and beside.is_file() else None


def _find_plugin(name: str, sdk_version: str) -> Path | None:
    """Return the newest plugin in Pulumi's plugin folder that has the same major and minor version as `sdk_version`."""
    home = Path(os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi")
    folders = sorted(
        home.glob(f"plugins/resource-{name}-v{_get_minor_version(sdk_version)}.*"), key=lambda folder: _parse_version(folder.name)
    )
    files = [folder / f"pulumi-resource-{name}" for folder in folders if folder.is_dir()]
    return next((file for file in reversed(files) if file.is_file()), None)


def _get_minor_version(version: str) -> str:
    return ".".join(version.removeprefix("v").split(".")[:2])


def _parse_version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.rpartition("-v")[2].split(".") if part.isdecimal())


def _require_same_minor_version(name: str, path: Path, version: str, sdk_version: str, fix: str) -> Program:
    if _get_minor_version(version) != _get_minor_version(sdk_version):
        raise NotInstalled(f"{path} is version {version or 'unknown'}, not {_get_minor_version(sdk_version)}; {fix}")
    return Program(name, path, version)


def _query_version(path: Path, stub: Callable[[grpc.Channel], Any], fix: str) -> str:
    """Start a plugin, query its version and stop it. Raises NotInstalled if the plugin does not answer."""
    try:
        with _start_plugin(path) as port, grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            return str(stub(channel).GetPluginInfo(empty_pb2.Empty(), timeout=ANSWER_SECONDS).version).removeprefix("v")
    except (OSError, ValueError, grpc.RpcError) as error:
        reason = error.details() if isinstance(error, grpc.Call) else str(error)
        raise NotInstalled(f"{path} is not a Pulumi plugin ({reason}); {fix}") from None


@contextmanager
def _start_plugin(path: Path) -> Any:
    """Start a plugin without an engine and yield the port that the plugin prints on its first line."""
    with subprocess.Popen(
        [path, "127.0.0.1:1"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            with selectors.DefaultSelector() as selector:
                selector.register(process.stdout, selectors.EVENT_READ)
                line = process.stdout.readline().strip() if selector.select(ANSWER_SECONDS) else ""
            if not line.isdecimal():
                raise ValueError(f"it printed {json.dumps(line)} instead of a port" if line else "it printed no port")
            yield int(line)
        finally:
            process.kill()
