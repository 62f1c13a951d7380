"""This machine: instance metadata, SSH keys, programs."""

import os
import pwd
import resource
import subprocess
import tempfile
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

METADATA = os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://169.254.169.254").rstrip("/")
TOKEN_SECONDS = "300"
SECONDS = 5
HOST_KEY = Path("/etc/ssh/ssh_host_ed25519_key")
MAX_OUTPUT_BYTES = 1 << 20
"""Limit for the output of a program, because login users and other nodes can control what ssh prints."""
MAX_ERROR_CHARACTERS = 1000

_USER_KEY_SCRIPT = """set -eu
[ -d "${1%/*}" ] || mkdir -m 0700 "${1%/*}"
[ -e "$1" ] || ssh-keygen -q -t ed25519 -N '' -C '' -f "$1"
[ -f "$1.pub" ] || { echo "$1.pub is not a file" >&2; exit 1; }
exec cat "$1.pub"
"""
"""Prints the public key of the key pair `$1`, and creates the pair if there is none. The user owns the folder and may
replace each file by a link at any time, so only the user itself may run this."""

Run = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]


def run_command(command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    """Run a program with limits on its time and output. A failure to start or a timeout is returned as exit code 255."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                timeout=30,
                preexec_fn=_limit_process_output,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return subprocess.CompletedProcess(command, 255, "", str(error))
        texts = []
        for file in (output, errors):
            file.seek(0)
            texts.append(file.read(MAX_OUTPUT_BYTES).decode(errors="replace"))
        return subprocess.CompletedProcess(command, done.returncode, *texts)


def _limit_process_output() -> None:
    """Have the kernel terminate a program that writes more than this to one of its files."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_OUTPUT_BYTES, MAX_OUTPUT_BYTES))


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


def read_hostname() -> str:
    """Return the first label of this machine's private DNS name, which other nodes compare with the one that EC2 reports."""
    return read_metadata("local-hostname").split(".")[0]


def ensure_user_key(user: str, run: Run = run_command) -> str:
    """Return the SSH user's public key, creating the key pair on the first call. The private key never leaves the machine."""
    key = f"{pwd.getpwnam(user).pw_dir}/.ssh/id_ed25519"
    done = run(build_command_as_user(user, ["sh", "-c", _USER_KEY_SCRIPT, "sh", key]))
    if done.returncode:
        raise OSError(f"{key}: {done.stderr.strip()[:MAX_ERROR_CHARACTERS]}")
    return strip_comment(done.stdout)


def read_host_key() -> str:
    """Return the public host key of this machine's sshd."""
    return strip_comment(HOST_KEY.with_suffix(".pub").read_text())


def strip_comment(public_key: str) -> str:
    """Return `type base64` of a public key."""
    return " ".join(public_key.split()[:2])


def has_sshd_with_keys(address: str, keys: tuple[str, ...], run: Run = run_command) -> bool:
    """Return whether the SSH server at this address proves that it holds one of these host keys."""
    kinds = ",".join({key.split()[0].replace("ecdsa-sha2-nistp256", "ecdsa").replace("ssh-", "") for key in keys})
    scanned = run(["ssh-keyscan", "-T", str(SECONDS), "-t", kinds, address]).stdout
    return any(" ".join(line.split()[1:3]) in keys for line in scanned.splitlines() if not line.startswith("#"))


def build_command_as_user(user: str, command: Sequence[str]) -> list[str]:
    """Return the command line that runs a command as the SSH user."""
    return ["runuser", "-u", user, "--", *command]


def find_head_node_obstacle(user: str, address: str, hostfile: Path, run: Run = run_command) -> str:
    """Return why the head node cannot start ranks on this node: the login fails, or its hostfile lacks this node.
    Empty if it can."""
    search = f"grep -q '^{address} ' {hostfile}"
    options = ("BatchMode=yes", "StrictHostKeyChecking=yes", f"ConnectTimeout={SECONDS}")
    command = ["ssh", *(part for option in options for part in ("-o", option)), "master", search]
    done = run(build_command_as_user(user, command))
    if done.returncode == 0:
        return ""
    if done.returncode == 1:
        return (
            f"the head node's hostfile lacks {address}: the head node has not seen this node yet, or this node's sshd "
            "did not answer it"
        )
    return f"cannot log in to the head node: {done.stderr.strip()[:MAX_ERROR_CHARACTERS]}"
