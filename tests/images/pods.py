"""Pods that run an image on a private network under Pod Security `restricted`: user 1000, no capabilities."""

import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import psutil
from tenacity import Retrying, retry_if_exception_type, retry_if_result, stop_after_delay, wait_fixed

from localcloud.images import root

T = TypeVar("T")

LAUNCHER = "launcher"
WORKERS = ("worker-0.job", "worker-1.job")
ADDRESSES = {LAUNCHER: "10.9.0.1", WORKERS[0]: "10.9.0.2", WORKERS[1]: "10.9.0.3"}
RESTRICTED = (
    *("setpriv", "--reuid=1000", "--regid=1000", "--clear-groups", "--no-new-privs"),
    *("--bounding-set=-all", "--inh-caps=-all", "--"),
)


def wait_until_true(look: Callable[[], T | None]) -> T:
    """Call `look` until it returns a truthy value, and return that value."""
    again = retry_if_result(lambda result: not result) | retry_if_exception_type(psutil.Error)
    result = Retrying(stop=stop_after_delay(240), wait=wait_fixed(0.05), retry=again)(look)
    assert result is not None
    return result


class Pod:
    """An idle pod in which tests run commands."""

    def __init__(self, image: Path, name: str) -> None:
        wait = root.wrap_command(image, ["sleep", "infinity"], {}, image)
        self._process = subprocess.Popen(["unshare", "--net", *wait], stdin=subprocess.DEVNULL)
        self.pid = wait_until_true(self._find_first_pid)
        self.run_as_root("hostname", name)

    def _find_first_pid(self) -> int | None:
        """Return the host's PID of the pod's process 1, or None if that process has not started yet."""
        children = psutil.Process(self._process.pid).children()
        return next((child.pid for child in children if child.name() == "sleep"), None)

    def network(self, *command: str) -> None:
        """Run the host's `ip` command in the pod's network namespace."""
        subprocess.run(["nsenter", f"--target={self.pid}", "--net", "ip", *command], check=True)

    def run_as_root(self, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self._build_command("/", {}, command), capture_output=True, text=True, check=check, timeout=240)

    def run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command with the restrictions of a container in the pod."""
        whole = self._build_command("/home/mpiuser", environment, (*RESTRICTED, *command))
        return subprocess.run(whole, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=240)

    def start(self, *command: str) -> "subprocess.Popen[str]":
        whole = self._build_command("/home/mpiuser", {}, (*RESTRICTED, *command))
        return subprocess.Popen(whole, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def _build_command(self, folder: str, environment: Mapping[str, str], command: Sequence[str]) -> list[str]:
        enter = ["nsenter", f"--target={self.pid}", "--mount", "--uts", "--ipc", "--net", "--pid", "--root"]
        variables = {"PATH": root.PATH, "HOME": "/home/mpiuser", "HOSTNAME": LAUNCHER, **environment}
        return [*enter, "env", "-i", f"--chdir={folder}", *(f"{name}={value}" for name, value in variables.items()), *command]

    def stop(self) -> None:
        self._process.kill()  # also kills the pod's process 1, which ends all of the pod's processes and mounts
        self._process.wait()


class Job:
    """A launcher and two workers with a key like the one that mpi-operator mounts. The workers run sshd by default."""

    def __init__(self, image: Path, *, starts_sshd: bool = True) -> None:
        self._servers: list[subprocess.Popen[str]] = []
        self.pods: dict[str, Pod] = {}
        try:
            for name in ADDRESSES:
                self.pods[name] = Pod(image, name)
            self.launcher = self.pods[LAUNCHER]
            self._connect_pods()
            hosts = "".join(f"{address} {name}\n" for name, address in ADDRESSES.items())
            (image / "etc/hosts").write_text(f"127.0.0.1 localhost\n{hosts}")
            self._make_key()
            for name in WORKERS if starts_sshd else ():
                self._servers.append(self.pods[name].start("/usr/sbin/sshd", "-De", "-f", "/home/mpiuser/.sshd_config"))
            for name in WORKERS if starts_sshd else ():
                wait_until_true(lambda name=name: self.launcher.run("ssh", name, "true").returncode == 0)
        except BaseException:
            self.stop()
            raise

    def _connect_pods(self) -> None:
        self.launcher.network("link", "add", "bridge", "type", "bridge")
        self.launcher.network("address", "add", f"{ADDRESSES[LAUNCHER]}/24", "dev", "bridge")
        for number, name in enumerate(WORKERS):
            worker = self.pods[name]
            link = ("link", "add", f"worker-{number}", "type", "veth", "peer", "name", "eth0", "netns", str(worker.pid))
            self.launcher.network(*link)
            self.launcher.network("link", "set", f"worker-{number}", "master", "bridge", "up")
            worker.network("address", "add", f"{ADDRESSES[name]}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                worker.network("link", "set", device, "up")
        for device in ("lo", "bridge"):
            self.launcher.network("link", "set", device, "up")

    def _make_key(self) -> None:
        """Create a key like the one in mpi-operator's Secret, which is an ECDSA key despite its name, owned by root
        and world-readable."""
        folder = "/home/mpiuser/.ssh"
        make = f"cd {folder} && rm -rf * && ssh-keygen -q -t ecdsa -b 521 -N '' -f id_rsa && cp id_rsa.pub authorized_keys"
        self.launcher.run_as_root("sh", "-c", f"{make} && chmod 0755 . && chmod 0644 *")

    def stop(self) -> None:
        for pod in self.pods.values():
            pod.stop()
        for server in self._servers:
            server.wait()
