"""This machine: instance metadata, SSH keys, programs."""

import os
import pwd
import socket
import subprocess
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

METADATA = os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://169.254.169.254").rstrip("/")
TOKEN_SECONDS = "300"
SECONDS = 5
HOST_KEY = Path("/etc/ssh/ssh_host_ed25519_key")

Run = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]


def run_command(command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    """Run a program with a time limit. A failure to start or a timeout is returned as exit code 255."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(command, 255, "", str(error))


def read_metadata(path: str) -> str:
    """Read a path from IMDSv2, which needs a session token.

    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html
    """
    request = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
    lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": TOKEN_SECONDS}
    put = urllib.request.Request(f"{METADATA}/latest/api/token", method="PUT", headers=lifetime)
    with request(put, timeout=SECONDS) as response:
        token = response.read().decode()
    get = urllib.request.Request(f"{METADATA}/latest/meta-data/{path}", headers={"X-aws-ec2-metadata-token": token})
    with request(get, timeout=SECONDS) as response:
        return str(response.read().decode())


def hostname() -> str:
    return socket.gethostname().split(".")[0]


def ensure_user_key(user: str, run: Run = run_command) -> str:
    """Return the SSH user's public key, creating the key pair on the first call. The private key never leaves the machine."""
    entry = pwd.getpwnam(user)
    folder = Path(entry.pw_dir) / ".ssh"
    key = folder / "id_ed25519"
    if not key.exists():
        folder.mkdir(mode=0o700, exist_ok=True)
        done = run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(key)])
        if done.returncode:
            raise OSError(f"ssh-keygen: {done.stderr.strip()}")
        for path in (folder, key, key.with_suffix(".pub")):
            os.chown(path, entry.pw_uid, entry.pw_gid)
    return public_key_without_comment(key)


def public_key_without_comment(key: Path) -> str:
    """Return `type base64` of a key pair's public key, without the comment."""
    return " ".join(key.with_suffix(".pub").read_text().split()[:2])


def has_sshd_with_keys(address: str, keys: tuple[str, ...], run: Run = run_command) -> bool:
    """Return whether the SSH server at this address proves that it holds one of these host keys."""
    kinds = ",".join({key.split()[0].replace("ecdsa-sha2-nistp256", "ecdsa").replace("ssh-", "") for key in keys})
    scanned = run(["ssh-keyscan", "-T", str(SECONDS), "-t", kinds, address]).stdout
    return any(" ".join(line.split()[1:3]) in keys for line in scanned.splitlines() if not line.startswith("#"))


def build_command_as_user(user: str, command: Sequence[str]) -> list[str]:
    """Return the command line that runs a command as the SSH user."""
    return ["runuser", "-u", user, "--", *command]


def find_head_node_obstacle(user: str, address: str, hostfile: Path, run: Run = run_command) -> str:
    """Return why the head node cannot send ranks here: login fails, or its hostfile lacks this node. Empty if it can."""
    search = f"grep -q '^{address} ' {hostfile}"
    options = ("BatchMode=yes", "StrictHostKeyChecking=yes", f"ConnectTimeout={SECONDS}")
    command = ["ssh", *(part for option in options for part in ("-o", option)), "master", search]
    done = run(build_command_as_user(user, command))
    if done.returncode == 0:
        return ""
    if done.returncode == 1:
        return f"the head node's hostfile lacks {address}: it has not seen this node yet, or this node's sshd did not answer it"
    return f"cannot log in to the head node: {done.stderr.strip()}"
