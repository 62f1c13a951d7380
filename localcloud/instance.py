"""One local cloud: a folder with its servers, its Pulumi backend and the programs that a shell needs.

    <folder>/servers.json   what runs: pids, ports, logs
             logs/          a log per server
             bin/           pulumi (where none is on PATH) and pulumi-language-python
             backend/       Pulumi's states
             project/       Pulumi.yaml and copies of the stack files that `cluster local` works on
"""

import fcntl
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from localcloud.control import Control
from localcloud.processes import ROOT, Server, load, save, start, stop
from localcloud.tools.build import Report, ensure
from localcloud.tools.catalogue import PULUMI

ACCESS_KEY_ID = "AKIALOCALCLOUDENGINE"
"""The local account's one user; see localcloud/aws/account.py."""
PASSPHRASE = "local"
"""Protects states that hold nothing real; a local cloud's states go when it stops."""
FOREIGN_VARIABLES = ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE", "PULUMI_ACCESS_TOKEN")
"""Would lead programs to a real account."""


class NotRunning(Exception):
    """The local cloud is not running, or a part of it is gone; the text says which."""


@dataclass(frozen=True)
class LocalCloud:
    """A local cloud in a folder of its own. Several run side by side."""

    folder: Path

    @property
    def _record(self) -> Path:
        return self.folder / "servers.json"

    @property
    def bin(self) -> Path:
        return self.folder / "bin"

    def servers(self) -> list[Server]:
        """What was started and not stopped, alive or not."""
        return load(self._record)

    def crashed(self) -> list[Server]:
        return [server for server in self.servers() if server.process() is None]

    def is_running(self) -> bool:
        return bool(self.servers()) and not self.crashed()

    def server(self, name: str) -> Server:
        """A living server by name."""
        for server in self.servers():
            if server.name == name:
                if server.process() is None:
                    raise NotRunning(f"the {name} server ended by itself; the end of {server.log}:\n{server.log_tail()}")
                return server
        raise NotRunning(f"no local cloud runs in {self.folder}; start it with: scripts/cluster local start")

    def start(self, report: Report, *, delay_factor: float = 0.0) -> bool:
        """Bring everything up; False when it is up already. What a crash left is cleaned first."""
        with self._only_one():
            if self.is_running():
                return False
            if self.servers():
                report("cleaning up after a local cloud that did not end properly")
                self._remove()
            pulumi = shutil.which("pulumi")
            own_pulumi = None if pulumi else ensure(PULUMI, report)
            self.bin.mkdir(parents=True, exist_ok=True)
            (self.folder / "backend").mkdir(exist_ok=True)
            if own_pulumi:
                self._install_programs(own_pulumi)
            logs = self.folder / "logs"
            aws = start("aws", "localcloud.aws", logs, environment={}, options=("--delay-factor", str(delay_factor)))
            save([aws], self._record)
            provider = start("provider", "localcloud.engine", logs, environment={"AWS_ENDPOINT_URL": aws.url, **_credentials()})
            save([aws, provider], self._record)
            return True

    def stop(self) -> bool:
        """End every server and remove what the local cloud held; False when there was nothing."""
        if not self.folder.exists():
            return False
        with self._only_one():
            had = bool(self.servers())
            self._remove()
        shutil.rmtree(self.folder, ignore_errors=True)
        return had

    def reset(self) -> None:
        """An empty account and no stacks, with the servers left running."""
        self.control().reset()
        for name in ("backend", "project"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
        (self.folder / "backend").mkdir()

    def control(self) -> Control:
        """The local AWS, looked at from behind."""
        return Control(self.server("aws").url)

    def environment(self) -> dict[str, str]:
        """Variables with which plain `pulumi`, `aws` and boto3 work on this local cloud."""
        aws, provider = self.server("aws"), self.server("provider")
        path = os.environ.get("PATH", os.defpath)
        own = str(self.bin)
        return {
            "PATH": path if own in path.split(os.pathsep) else own + os.pathsep + path,
            "PULUMI_BACKEND_URL": f"file://{self.folder / 'backend'}",
            "PULUMI_CONFIG_PASSPHRASE": PASSPHRASE,
            "PULUMI_DEBUG_PROVIDERS": f"aws:{provider.port}",
            "PULUMI_HOME": str(self.folder / "home"),
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "AWS_ENDPOINT_URL": aws.url,
            "AWS_EC2_METADATA_DISABLED": "true",
            **_credentials(),
        }

    def process_environment(self) -> dict[str, str]:
        """`environment()` on top of this process's own, without what leads to a real account."""
        kept = {name: value for name, value in os.environ.items() if name not in FOREIGN_VARIABLES}
        return kept | self.environment()

    def _install_programs(self, pulumi: Path) -> None:
        """pulumi, and beside it the language host that the official one would bring along.

        The engine warns about a language host that does not lie beside its own file, so a link would not do.
        """
        own = self.bin / "pulumi"
        own.unlink(missing_ok=True)
        try:
            own.hardlink_to(pulumi)
        except OSError:  # another file system
            shutil.copy2(pulumi, own)
        host = self.bin / "pulumi-language-python"
        host.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m localcloud.engine.language_host "$@"\n')
        host.chmod(0o755)

    def _remove(self) -> None:
        for server in reversed(self.servers()):
            stop(server)
        for entry in ("servers.json", "logs", "bin", "backend", "project", "home"):
            path = self.folder / entry
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    @contextmanager
    def _only_one(self) -> Iterator[None]:
        """Two commands that start or stop the same local cloud take turns."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _credentials() -> dict[str, str]:
    return {"AWS_ACCESS_KEY_ID": ACCESS_KEY_ID, "AWS_SECRET_ACCESS_KEY": "local"}
