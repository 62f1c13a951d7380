"""Install programs into the `bin` folder of a local cloud. This folder is first on the PATH of the user's shell."""

import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from localcloud.environment import strip_local_clouds_from_path
from localcloud.hosts import capability as host_capability
from localcloud.hosts import programs as host_programs
from localcloud.images.root import ImageError
from localcloud.kubernetes import capability, programs
from localcloud.processes import ROOT
from localcloud.tools import aws_cli, language_exec
from localcloud.tools.build import BuildError, Report, ensure_tool
from localcloud.tools.catalogue import KUBECTL, PULUMI

LANGUAGE_HOST = "pulumi-language-python"
PLUGIN = "pulumi-resource-"
"""Name prefix of Pulumi's resource plugins. A plugin in `bin` replaces the emulator of its provider."""


@dataclass(frozen=True)
class Programs:
    """Installs programs into a local cloud's `bin` folder."""

    bin: Path
    report: Report

    def install_for_pulumi(self, plugins: Mapping[str, Path], *, own_cli: bool) -> None:
        """Install our build of pulumi and our language host, unless the official pulumi and its host are on PATH. If
        the official pulumi has no language host, add ours. Link the official plugins.

        The engine warns if the language host is not in the folder of the pulumi binary. The binary is therefore
        hard-linked or copied into `bin`; a symlink would not work.
        """
        self.bin.mkdir(parents=True)
        for name, plugin in plugins.items():
            (self.bin / f"{PLUGIN}{name}").symlink_to(plugin.absolute())
        official_pulumi = None if own_cli else find_official("pulumi")
        if official_pulumi and (
            find_official(LANGUAGE_HOST) or Path(official_pulumi).resolve().with_name(LANGUAGE_HOST).exists()
        ):
            return
        pulumi, own = (
            Path(official_pulumi).resolve() if official_pulumi else ensure_tool(PULUMI, self.report),
            self.bin / "pulumi",
        )
        try:
            own.hardlink_to(pulumi)
        except OSError:  # another file system
            shutil.copy2(pulumi, own)
        self.install_language_host()

    def install_language_host(self) -> None:
        """Install our language host, which the engine then prefers to any other language host."""
        language_exec.ensure_script(self.report)
        self._write_wrapper_script(LANGUAGE_HOST, "localcloud.engine.language_host")

    def install_for_kubernetes(self) -> None:
        """Install the programs that clusters run, and `kubectl` and `aws` for the user's shell."""
        able = capability.check_machine()
        if not able.real_nodes:
            self.report(str(able))
        programs.prepare_programs(able, self.report)
        (self.bin / "kubectl").symlink_to(ensure_tool(KUBECTL, self.report))
        self._install_aws_cli()

    def install_for_hosts(self) -> bool:
        """Install the hosts' programs and root file systems, and `aws` with its Session Manager plugin for SSH. Return
        False if this machine cannot run hosts.
        """
        able = host_capability.check_machine()
        if not able.hosts:
            self.report(str(able))
            return False
        host_capability.read_host_limit()  # this raises BadLimit before anything is built
        try:
            host_programs.prepare_programs(self.report)
        except (BuildError, ImageError) as error:
            raise BuildError(f"{error}\nTo start without hosts: scripts/cluster local start --no-hosts") from error
        self._install_aws_cli()
        self._write_wrapper_script("session-manager-plugin", "localcloud.hosts.session_manager_plugin")
        return True

    def _install_aws_cli(self) -> None:
        if not find_official("aws") and not (self.bin / "aws").exists():
            (self.bin / "aws").symlink_to(aws_cli.ensure_installed(self.report))

    def _write_wrapper_script(self, name: str, module: str) -> None:
        """Write a shell script that runs a Python module of this repository."""
        program = self.bin / name
        program.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m {module} "$@"\n')
        program.chmod(0o755)


def find_official(program: str) -> str | None:
    """Return the path of a program on PATH, ignoring the bin folders of local clouds: the user's shell may use another
    local cloud."""
    return shutil.which(program, path=strip_local_clouds_from_path())
