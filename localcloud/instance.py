"""One local cloud: a folder with its servers, its Pulumi backend and the programs that a shell needs.

<folder>/lock           marks the folder as ours; held while somebody starts or stops
         servers.json   what runs: pids, ports, logs
         logs/          a log per server
         bin/           pulumi (where none is on PATH) and pulumi-language-python
         backend/       Pulumi's states
         home/          Pulumi's own files
         file-systems/  the files of EFS file systems
         project/       Pulumi.yaml and copies of the stack files that `cluster local` works on
         kubernetes/    what EKS clusters need that are alive; there is none where they are only records
         hosts/         what EC2 instances need that are hosts; there is none where they are only records
"""

import fcntl
import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, wait_fixed

from infra.config import stack_file
from infra.facts.manifests import MIRROR_VARIABLE
from infra.recovery import recover_stack
from infra.recovery.aws_lookups import Client
from localcloud import mirror
from localcloud.control import Control
from localcloud.environment import CREDENTIALS, past_proxies, without_foreign
from localcloud.hosts import capability as host_capability
from localcloud.hosts import programs as host_programs
from localcloud.hosts import state as host_state
from localcloud.images.root import ImageError
from localcloud.kubernetes import capability, programs, state
from localcloud.machine import ledger
from localcloud.processes import ROOT, Server, await_ready, load, save, spawn, stop
from localcloud.tools import aws_cli
from localcloud.tools.build import BuildError, Report, ensure
from localcloud.tools.catalogue import KUBECTL, PULUMI

PROJECT = "gpumpi"
"""The `name` in Pulumi.yaml."""
PASSPHRASE = "local"
"""Protects states that hold nothing real; a local cloud's states go when it stops."""
PARALLEL = 32
"""Resource operations at once. Most of them wait for something, and four a core, as the engine would have it, is eight on a small
machine: two namespaces that end slowly hold up everything behind them."""
KUBERNETES_PROVIDER = "kubernetes-provider"
SERVERS = ("aws", "provider", KUBERNETES_PROVIDER)
AWS_MODULE, PROVIDER_MODULE, KUBERNETES_MODULE = "localcloud.aws", "localcloud.engine.aws", "localcloud.engine.kubernetes"
LOCK = "lock"
CONTENT = ("servers.json", "servers.part", "logs", "bin", "backend", "project", "home", "file-systems", "kubernetes", "hosts")
RESET_SECONDS = 60.0


class NotRunning(Exception):
    """The local cloud is not running, or a part of it is gone; the text says which."""


class NotOurFolder(Exception):
    """The folder has files that no local cloud made."""


@dataclass(frozen=True)
class LocalCloud:
    """A local cloud in a folder of its own. Several run side by side."""

    folder: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", self.folder.absolute())  # shells and servers work in other folders

    @property
    def _record(self) -> Path:
        return self.folder / "servers.json"

    @property
    def bin(self) -> Path:
        return self.folder / "bin"

    def state_file(self, stack: str) -> Path:
        """Where Pulumi keeps the state of one of our stacks."""
        return self.folder / "backend" / ".pulumi" / "stacks" / PROJECT / f"{stack}.json"

    def servers(self) -> list[Server]:
        """What was started and not stopped, alive or not."""
        return load(self._record)

    def crashed(self) -> list[Server]:
        return [server for server in self.servers() if server.process() is None]

    def clusters(self) -> list[state.ClusterState]:
        """The Kubernetes clusters, as they tell of themselves."""
        return state.load_all(self._kubernetes)

    def hosts(self) -> list[host_state.HostState]:
        """The EC2 instances that are hosts, or would be if the machine were larger, as they tell of themselves."""
        return host_state.load(self._hosts)

    @property
    def _hosts(self) -> Path:
        return self.folder / "hosts"

    @property
    def _kubernetes(self) -> Path:
        return self.folder / "kubernetes"

    def is_running(self) -> bool:
        return [server.name for server in self.servers() if server.is_serving()] == list(SERVERS)

    def server(self, name: str) -> Server:
        """A living server by name."""
        for server in self.servers():
            if server.name == name:
                if server.process() is None:
                    raise NotRunning(
                        f"the {name} server ended by itself; `scripts/cluster local start` begins anew, with an empty account; "
                        f"the end of {server.log}:\n{server.log_tail()}"
                    )
                if server.port:
                    return server
        raise NotRunning(f"no local cloud runs in {self.folder}; start it with: scripts/cluster local start")

    def start(self, report: Report, *, delay_factor: float = 0.0, kubernetes: bool = False, hosts: bool = False) -> bool:
        """Bring everything up; False when it is up already. What a crash left is cleaned first.

        With Kubernetes, EKS clusters come alive; without, they are records. So it is with hosts and EC2 instances.
        """
        if self.folder.exists() and not (self.folder / LOCK).exists() and any(self.folder.iterdir()):
            raise NotOurFolder(f"{self.folder} has files of something else; a local cloud needs an empty or a new folder")
        with self._alone():
            if self.is_running():
                return False
            if self.servers():
                report("cleaning up after a local cloud that did not end properly")
            self._clear()
            self._install_programs(report)
            if kubernetes:
                self._prepare_kubernetes(report)
            if hosts:
                self._prepare_hosts(report)
            if shutil.which("go"):  # without it there is an official pulumi, and upstream is asked
                mirror.ensure(report)
            self._make_backend()
            try:
                self._start_servers(delay_factor)
            except BaseException:
                self._end_servers()
                raise
            return True

    def stop(self) -> bool:
        """End every server and remove what the local cloud held; False when there was nothing."""
        if not (self.folder / LOCK).exists():
            return False
        with self._alone():
            had = bool(self.servers())
            self._clear()
            (self.folder / LOCK).unlink()
        if not any(self.folder.iterdir()):
            self.folder.rmdir()
        return had

    def reset(self) -> None:
        """An empty account and no stacks, with the servers left running."""
        self.control().reset()
        self._await_nothing_alive()
        for name in ("backend", "project"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
        self._make_backend()

    def control(self) -> Control:
        """The local AWS, looked at from behind."""
        return Control(self.server("aws").url)

    def clients(self, region: str) -> Client:
        """boto3 clients of the local AWS by service, as its user has them."""
        from botocore.config import Config

        return recover_stack.clients(
            region,
            endpoint_url=self.server("aws").url,
            aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
            config=Config(proxies={}),  # it is on this machine
        )

    @property
    def has_kubernetes(self) -> bool:
        """Whether an EKS cluster in it is a Kubernetes cluster, and not only a record."""
        return (self.folder / "kubernetes").exists()

    @property
    def has_hosts(self) -> bool:
        """Whether an EC2 instance in it is a host, and not only a record."""
        return self._hosts.exists()

    def environment(self) -> dict[str, str]:
        """Variables with which plain `pulumi`, `aws` and boto3 work on this local cloud."""
        aws, provider, kubernetes = (self.server(name) for name in SERVERS)
        path = os.environ.get("PATH", os.defpath)
        own = str(self.bin)
        return {
            "PATH": path if path.split(os.pathsep)[0] == own else own + os.pathsep + path,
            "PULUMI_BACKEND_URL": f"file://{self.folder / 'backend'}",
            "PULUMI_CONFIG_PASSPHRASE": PASSPHRASE,
            "PULUMI_DEBUG_PROVIDERS": f"aws:{provider.port},kubernetes:{kubernetes.port}",
            "PULUMI_HOME": str(self.folder / "home"),
            "PULUMI_PARALLEL": str(PARALLEL),
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "AWS_ENDPOINT_URL": aws.url,
            "AWS_EC2_METADATA_DISABLED": "true",
            **({MIRROR_VARIABLE: str(mirror.folder())} if mirror.is_complete() else {}),
            **CREDENTIALS,
            **past_proxies(os.environ),
        }

    def process_environment(self) -> dict[str, str]:
        """`environment()` on top of this process's own, without what leads to a real account."""
        return without_foreign(os.environ) | self.environment()

    def _start_servers(self, delay_factor: float) -> None:
        """Each is recorded before it serves: whoever comes after a crash finds what to end."""
        clean = without_foreign(os.environ) | CREDENTIALS | past_proxies(os.environ)
        logs = self.folder / "logs"
        files = ("--file-systems", str(self.folder / "file-systems"))
        alive = ("--kubernetes", str(self._kubernetes)) if self._kubernetes.exists() else ()
        if self._hosts.exists():
            alive = (*alive, "--hosts", str(self._hosts))
        aws = spawn("aws", AWS_MODULE, logs, clean, "--delay-factor", str(delay_factor), *files, *alive)
        save([aws], self._record)
        aws = await_ready(aws)
        started = [aws]
        for name, module in (("provider", PROVIDER_MODULE), (KUBERNETES_PROVIDER, KUBERNETES_MODULE)):
            started.append(spawn(name, module, logs, clean | {"AWS_ENDPOINT_URL": aws.url}))
            save(started, self._record)
        save([aws, *(await_ready(server) for server in started[1:])], self._record)

    def _install_programs(self, report: Report) -> None:
        """Where there is no official pulumi: our build, and beside it the language host that the official one would bring along.

        The engine warns about a language host that does not lie beside its own file, so a link would not do.
        """
        self.bin.mkdir(parents=True)
        if official("pulumi"):
            return
        pulumi, own = ensure(PULUMI, report), self.bin / "pulumi"
        try:
            own.hardlink_to(pulumi)
        except OSError:  # another file system
            shutil.copy2(pulumi, own)
        self._write_program("pulumi-language-python", "localcloud.engine.language_host")

    def _prepare_kubernetes(self, report: Report) -> None:
        """What clusters run, and `kubectl` and `aws` for whoever has a kubeconfig."""
        able = capability.examine()
        if not able.real_nodes:
            report(str(able))
        programs.prepare(able, report)
        (self.bin / "kubectl").symlink_to(ensure(KUBECTL, report))
        self._install_aws_cli(report)
        self._kubernetes.mkdir(mode=0o700)

    def _prepare_hosts(self, report: Report) -> None:
        """What hosts run and start from, and `aws` with its plugin, by which one logs in to them."""
        able = host_capability.examine()
        if not able.hosts:
            report(str(able))
            return
        host_capability.limit()  # understood, before anything is made
        try:
            host_programs.prepare(report)
        except (BuildError, ImageError) as error:
            raise BuildError(f"{error}\nscripts/cluster local start --no-hosts does without hosts") from error
        self._install_aws_cli(report)
        self._write_program("session-manager-plugin", "localcloud.hosts.session_manager_plugin")
        self._hosts.mkdir(mode=0o700)

    def _install_aws_cli(self, report: Report) -> None:
        if not official("aws") and not (self.bin / "aws").exists():
            (self.bin / "aws").symlink_to(aws_cli.ensure(report))

    def _write_program(self, name: str, module: str) -> None:
        """One of our modules as a program of a shell."""
        program = self.bin / name
        program.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m {module} "$@"\n')
        program.chmod(0o755)

    def _await_nothing_alive(self) -> None:
        """They end in their own time after a reset."""
        some_left = Retrying(retry=retry_if_result(bool), wait=wait_fixed(0.05), stop=stop_after_delay(RESET_SECONDS))
        try:
            some_left(lambda: [*self.clusters(), *self.hosts()])
        except RetryError:
            names = ", ".join([*(cluster.name for cluster in self.clusters()), *(host.instance_id for host in self.hosts())])
            raise ledger.StillThere(f"{names} do not end; scripts/cluster local stop ends them") from None

    def _make_backend(self) -> None:
        """A backend that knows each file of stacks/, as after `pulumi stack init`: plain `pulumi up -s NAME` just works."""
        own = self.folder / "backend" / ".pulumi"
        (own / "stacks" / PROJECT).mkdir(parents=True)
        (own / "meta.yaml").write_text("version: 1\n")
        for name in stack_file.names(ROOT / "stacks"):
            empty = {"version": 3, "checkpoint": {"stack": f"organization/{PROJECT}/{name}"}}
            self.state_file(name).write_text(json.dumps(empty))

    def _end_servers(self) -> None:
        for server in reversed(self.servers()):
            stop(server)
        self._record.unlink(missing_ok=True)

    def _clear(self) -> None:
        self._end_servers()
        ledger.clean_all(self._kubernetes)
        ledger.clean_all(self._hosts)
        for entry in CONTENT:
            path = self.folder / entry
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Two commands that start or stop the same local cloud take turns."""
        path = self.folder / LOCK
        while True:
            self.folder.mkdir(parents=True, exist_ok=True)
            with path.open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if _is_still(path, lock.fileno()):
                    yield
                    return


def _is_still(path: Path, descriptor: int) -> bool:
    """Whether the open file is the one at `path`: who had the lock may have removed it."""
    return path.exists() and os.path.samestat(path.stat(), os.fstat(descriptor))


def official(program: str) -> str | None:
    """One on PATH that no local cloud put there: a shell may have taken the variables of another one."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    others = [folder for folder in folders if not (Path(folder).parent / LOCK).exists()]
    return shutil.which(program, path=os.pathsep.join(others))
