"""Manage one local cloud: its servers, its Pulumi backend, and the programs for the user's shell, all in one folder.

<folder>/lock           marks the folder of a local cloud; held during start and stop
         servers.json   running servers: pids, ports, logs
         key.json       access key of the account's user, which only the user who started the local cloud can read
         logs/          one log per server
         bin/           pulumi (if none is on PATH) and pulumi-language-python
         backend/       Pulumi's state files
         home/          Pulumi's own files
         file-systems/  contents of EFS file systems
         project/       Pulumi.yaml and the copies of stack files that `cluster local` uses
         kubernetes/    files of running EKS clusters; absent if EKS clusters exist only as API records
         hosts/         files of EC2 instances that run as hosts; absent if instances exist only as API records
"""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, wait_fixed

from infra.config import stack_file
from infra.facts.manifests import MIRROR_VARIABLE
from infra.inventory.lookups import Client
from infra.recovery import recover_stack
from localcloud import mirror
from localcloud.control import Control, ControlError
from localcloud.environment import LOCK, OFFICIAL_PROGRAMS, build_no_proxy_variables, remove_foreign_variables
from localcloud.hosts import state as host_state
from localcloud.installed_programs import PLUGIN, Programs
from localcloud.keys import Key
from localcloud.kubernetes import state
from localcloud.machine import ledger
from localcloud.processes import ROOT, Server, await_ready, load_servers, save_servers, spawn_server, stop_server
from localcloud.tools.build import Report

PROJECT = "gpumpi"
"""Project name, as in Pulumi.yaml."""
PASSPHRASE = "local"
"""Passphrase of the local stacks. Their state contains no real secrets and is deleted when the local cloud stops."""
PARALLEL = 32
"""Number of parallel resource operations; most of them only wait. The engine's default of four per core allows only
eight on a small machine. On such a machine, two namespaces that are slow to terminate would block all other
operations."""
AWS_MODULE = "localcloud.aws"
EMULATORS = {"aws": ("provider", "localcloud.engine.aws"), "kubernetes": ("kubernetes-provider", "localcloud.engine.kubernetes")}
"""Maps a provider to the name and module of the server that emulates it."""
SERVERS = ("aws", *(server for server, _ in EMULATORS.values()))
REGION = "us-west-2"
KEY_FILE = "key.json"
FOLDERS = ("logs", "bin", "backend", "project", "home", "file-systems", "kubernetes", "hosts")
CONTENT = ("servers.json", "servers.part", KEY_FILE, *FOLDERS)
RESET_SECONDS = 60.0


class NotRunning(Exception):
    """The local cloud or one of its servers is not running. The message contains the command that starts it."""


class NotOurFolder(Exception):
    """The folder contains files that a local cloud did not create."""


@dataclass(frozen=True)
class LocalCloud:
    """A local cloud in its own folder. Several local clouds can run side by side."""

    folder: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", self.folder.absolute())  # servers and shells run in other directories

    @property
    def _servers_file(self) -> Path:
        return self.folder / "servers.json"

    @property
    def key(self) -> Key:
        """Access key of the account's user."""
        return Key.load(self.folder / KEY_FILE)

    @property
    def bin(self) -> Path:
        return self.folder / "bin"

    def state_file(self, stack: str) -> Path:
        """Return the path of a stack's Pulumi state file."""
        return self.folder / "backend" / ".pulumi" / "stacks" / PROJECT / f"{stack}.json"

    def servers(self) -> list[Server]:
        """Return the servers that were started and have not been stopped, including servers that have crashed."""
        return load_servers(self._servers_file)

    def list_crashed_servers(self) -> list[Server]:
        return [server for server in self.servers() if server.find_process() is None]

    def clusters(self) -> list[state.ClusterState]:
        """Return the reported state of each Kubernetes cluster."""
        return state.load_cluster_states(self.kubernetes_folder)

    def hosts(self) -> list[host_state.HostState]:
        """Return the reported state of each EC2 instance that runs as a host or did not fit on this machine."""
        return host_state.load_host_states(self._hosts_folder)

    def problems(self) -> list[str]:
        """Return the failures of the running local cloud. A local AWS that does not answer counts as a failure."""
        aws = next((server for server in self.servers() if server.name == SERVERS[0] and server.is_serving()), None)
        try:
            return self._build_control(aws).problems() if aws is not None else []
        except (OSError, ControlError) as error:
            return [f"the aws server does not answer: {error}"]

    @property
    def _hosts_folder(self) -> Path:
        return self.folder / "hosts"

    @property
    def kubernetes_folder(self) -> Path:
        return self.folder / "kubernetes"

    def is_running(self) -> bool:
        return [server.name for server in self.servers() if server.is_serving()] == ["aws", *self.emulators.values()]

    @property
    def emulators(self) -> dict[str, str]:
        """Map each emulated provider to the name of its server. Providers that official plugins replace are left out."""
        return {name: server for name, (server, _) in EMULATORS.items() if not (self.bin / f"{PLUGIN}{name}").exists()}

    def require_running(self) -> None:
        """Raise NotRunning unless the local AWS and the emulated providers are running."""
        for name in ("aws", *self.emulators.values()):
            self.server(name)

    def server(self, name: str) -> Server:
        """Return the running server with this name. Raises NotRunning."""
        for server in self.servers():
            if server.name == name:
                if server.find_process() is None:
                    how = "restart with an empty account" if name == "aws" else "restart it"
                    raise NotRunning(
                        f"the {name} server exited unexpectedly. To {how}: scripts/cluster local start. "
                        f"The end of {server.log}:\n{server.read_log_tail()}"
                    )
                if server.port:
                    return server
        raise NotRunning(f"no local cloud is running in {self.folder}; start it with: scripts/cluster local start")

    def start(
        self,
        report: Report,
        *,
        delay_factor: float = 0.0,
        kubernetes: bool = False,
        hosts: bool = False,
        plugins: Mapping[str, Path] | None = None,
        own_cli: bool = False,
        account: str = "established",
    ) -> bool:
        """Start all servers. If the local AWS is already running, only restart crashed providers and return False.
        Otherwise, first clean up after a local cloud that did not stop cleanly.

        With `kubernetes`, each EKS cluster runs as a Kubernetes cluster; otherwise it is only an API record. With
        `hosts`, EC2 instances run as hosts; otherwise they are only API records. `plugins` maps providers to
        official plugins that run instead of the emulators. With `own_cli`, an official pulumi on PATH is ignored. If
        `account` is `new`, the account has AWS's default quotas and no service-linked roles.
        """
        if self.folder.exists() and not (self.folder / LOCK).exists() and any(self.folder.iterdir()):
            raise NotOurFolder(f"{self.folder} contains files that do not belong to a local cloud. Use an empty or new folder")
        with self._hold_lock():
            if self.is_running() or self._restart_providers():
                return False
            if self.servers():
                report("cleaning up after a local cloud that did not stop cleanly")
            self._remove_data()
            installed = Programs(self.bin, report)
            installed.install_for_pulumi(plugins or {}, own_cli=own_cli)
            if kubernetes:
                installed.install_for_kubernetes()
                self.kubernetes_folder.mkdir(mode=0o700)
            if hosts and installed.install_for_hosts():
                self._hosts_folder.mkdir(mode=0o700)
            if shutil.which("go"):  # without Go, use the official pulumi and fetch manifests from upstream
                mirror.ensure_mirror(report)
            self._make_backend()
            try:
                self._start_servers(delay_factor, account)
            except BaseException:
                self._stop_servers()
                raise
            return True

    def stop(self) -> bool:
        """Stop all servers and remove all data. Return False if nothing was running."""
        if not (self.folder / LOCK).exists():
            return False
        with self._hold_lock():
            had = bool(self.servers())
            self._remove_data()
            (self.folder / LOCK).unlink()
        if not any(self.folder.iterdir()):
            self.folder.rmdir()
        return had

    def reset(self) -> None:
        """Remove all resources and stacks but keep the servers running."""
        self.control().reset()
        self._wait_for_removal()
        for name in ("backend", "project"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
        self._make_backend()

    def control(self) -> Control:
        """Return a client of the local AWS's control API."""
        return self._build_control(self.server("aws"))

    def _build_control(self, aws: Server) -> Control:
        return Control(aws.url, self.key.control_token)

    def clients(self, region: str) -> Client:
        """Return a factory for boto3 clients that call the local AWS with the local account's credentials."""
        from botocore.config import Config  # slow to import

        url, key = self.server("aws").url, self.key
        return recover_stack.create_client_factory(
            region,
            endpoint_url=url,
            aws_access_key_id=key.access_key_id,
            aws_secret_access_key=key.secret_access_key,
            config=Config(proxies={}),  # use no proxy: the local AWS runs on this machine
        )

    @property
    def has_kubernetes(self) -> bool:
        """Whether EKS clusters run as Kubernetes clusters rather than existing only as API records."""
        return (self.folder / "kubernetes").exists()

    @property
    def has_hosts(self) -> bool:
        """Whether EC2 instances run as hosts rather than existing only as API records."""
        return self._hosts_folder.exists()

    def environment(self) -> dict[str, str]:
        """Return the environment variables that make `pulumi`, `aws` and boto3 use this local cloud."""
        aws = self.server("aws")
        attached = [f"{name}:{self.server(server).port}" for name, server in self.emulators.items()]
        first = [str(self.bin), *filter(None, [os.environ.get(OFFICIAL_PROGRAMS)])]
        rest = [folder for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if folder not in first]
        return {
            "PATH": os.pathsep.join([*first, *rest]),
            "PULUMI_BACKEND_URL": f"file://{self.folder / 'backend'}",
            "PULUMI_CONFIG_PASSPHRASE": PASSPHRASE,
            **({"PULUMI_DEBUG_PROVIDERS": ",".join(attached)} if attached else {}),
            "PULUMI_HOME": str(self.folder / "home"),
            "PULUMI_PARALLEL": str(PARALLEL),
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "AWS_ENDPOINT_URL": aws.url,
            "AWS_EC2_METADATA_DISABLED": "true",
            **_build_region_variables(os.environ),
            **({MIRROR_VARIABLE: str(mirror.get_mirror_folder())} if mirror.is_complete() else {}),
            **self.key.environment,
            **build_no_proxy_variables(os.environ),
        }

    def process_environment(self) -> dict[str, str]:
        """Return this process's environment plus `environment()`, without variables that point to a real account."""
        return remove_foreign_variables(os.environ) | self.environment()

    def _start_servers(self, delay_factor: float, account: str) -> None:
        """Start the servers. Record each server before it is ready, so that a later command can stop the server after a
        crash."""
        Key.create().save(self.folder / KEY_FILE)
        clean, logs = self._build_server_environment(), self.folder / "logs"
        files = ("--key-file", str(self.folder / KEY_FILE), "--file-systems", str(self.folder / "file-systems"))
        alive = ("--kubernetes", str(self.kubernetes_folder)) if self.kubernetes_folder.exists() else ()
        if self._hosts_folder.exists():
            alive = (*alive, "--hosts", str(self._hosts_folder))
        aws = spawn_server(
            "aws", AWS_MODULE, logs, clean, "--delay-factor", str(delay_factor), "--account", account, *files, *alive
        )
        save_servers([aws], self._servers_file)
        aws = await_ready(aws)
        started = [aws]
        for provider in self.emulators:
            name, module = EMULATORS[provider]
            started.append(spawn_server(name, module, logs, clean | {"AWS_ENDPOINT_URL": aws.url}))
            save_servers(started, self._servers_file)
        save_servers([aws, *(await_ready(server) for server in started[1:])], self._servers_file)

    def _build_server_environment(self) -> dict[str, str]:
        return remove_foreign_variables(os.environ) | self.key.environment | build_no_proxy_variables(os.environ)

    def _restart_providers(self) -> bool:
        """Restart crashed providers on their previous ports, because users' shells still refer to these ports. Return
        False if the local AWS has exited.
        """
        servers = {server.name: server for server in self.servers()}
        if (
            list(servers) != ["aws", *self.emulators.values()]
            or not all(server.port for server in servers.values())
            or not servers["aws"].is_serving()
        ):
            return False
        environment = self._build_server_environment() | {"AWS_ENDPOINT_URL": servers["aws"].url}
        for provider in self.emulators:
            name, module = EMULATORS[provider]
            if not servers[name].is_serving():
                again = spawn_server(name, module, self.folder / "logs", environment, port=servers[name].port)
                servers[name] = await_ready(again)
                save_servers(list(servers.values()), self._servers_file)
        return True

    def _wait_for_removal(self) -> None:
        """Wait until clusters and hosts have stopped. Clusters and hosts stop by themselves after the account has been reset."""
        some_left = Retrying(retry=retry_if_result(bool), wait=wait_fixed(0.05), stop=stop_after_delay(RESET_SECONDS))
        try:
            some_left(lambda: [*self.clusters(), *self.hosts()])
        except RetryError:
            names = ", ".join([*(cluster.name for cluster in self.clusters()), *(host.instance_id for host in self.hosts())])
            slow = f"{names}: not stopped within {RESET_SECONDS:.0f} s"
            raise ledger.StillThere(f"{slow}. Stop the local cloud: scripts/cluster local stop") from None

    def _make_backend(self) -> None:
        """Create a Pulumi backend with an empty stack for each file in stacks/, so that `pulumi up -s NAME` works."""
        own = self.folder / "backend" / ".pulumi"
        (own / "stacks" / PROJECT).mkdir(parents=True)
        (own / "meta.yaml").write_text("version: 1\n")
        for name in stack_file.list_stack_names(ROOT / "stacks"):
            empty = {"version": 3, "checkpoint": {"stack": f"organization/{PROJECT}/{name}"}}
            self.state_file(name).write_text(json.dumps(empty))

    def _stop_servers(self) -> None:
        for server in reversed(self.servers()):
            stop_server(server)
        self._servers_file.unlink(missing_ok=True)

    def _remove_data(self) -> None:
        self._stop_servers()
        ledger.remove_all_resources(self.kubernetes_folder)
        ledger.remove_all_resources(self._hosts_folder)
        for entry in CONTENT:
            path = self.folder / entry
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    @contextmanager
    def _hold_lock(self) -> Iterator[None]:
        """Serialize commands that start or stop the same local cloud."""
        path = self.folder / LOCK
        while True:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.folder.chmod(0o700)  # stack states and logs contain secrets
            with path.open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if _is_same_file(path, lock.fileno()):
                    yield
                    return


def _is_same_file(path: Path, descriptor: int) -> bool:
    """Return whether the open file still exists at `path`: the previous holder of the lock may have deleted it."""
    return path.exists() and os.path.samestat(path.stat(), os.fstat(descriptor))


def _build_region_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that set the default region of SDKs and the AWS CLI: the user's region or, if
    there is none, the region that `init` proposes."""
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or REGION
    return {"AWS_REGION": region, "AWS_DEFAULT_REGION": region}
