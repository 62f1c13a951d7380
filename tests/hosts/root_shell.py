"""Commands as root on a local host. Users log in with SSH instead."""

import subprocess
from collections.abc import Mapping
from contextlib import suppress

import psutil

from localcloud.hosts.host import build_enter_command

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def run_as_root(
    instance_id: str, *command: str, environment: Mapping[str, str] = {}, seconds: float = 60.0
) -> "subprocess.CompletedProcess[str]":
    """Run a command in the host's namespaces. The result has exit code 255 if the host does not run."""
    init = find_init(instance_id)
    if init is None:
        return subprocess.CompletedProcess(list(command), 255, "", f"{instance_id} does not run")
    variables = [f"{name}={value}" for name, value in {"PATH": PATH, "HOME": "/root", **environment}.items()]
    inside = [*build_enter_command(init.pid), "env", "-i", *variables, "timeout", str(seconds), *command]
    return subprocess.run(inside, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


def find_init(instance_id: str) -> psutil.Process | None:
    """Return the host's init process (PID 1), which is the child of systemd-nspawn."""
    for process in psutil.process_iter(["cmdline"]):
        if f"--machine={instance_id}" in (process.info["cmdline"] or ()):
            with suppress(psutil.NoSuchProcess):  # the process has exited in the meantime
                for child in process.children():
                    if child.name() == "systemd":
                        return child
    return None
