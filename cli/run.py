"""`scripts/cluster run`: a command on the master, as the login user, to its end and its exit code."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from cli import remote_run
from cli.exit_codes import INTERRUPTED
from cli.master_ssh import MasterSsh, to_master
from cli.plain_cluster import Failed, PlainCluster
from cli.remote_run import SSH_FAILED, Lost


def run(
    stack: str,
    folder: Path,
    words: Sequence[str],
    *,
    workdir: str | None,
    identity: Path | None,
    detach: bool,
    attach: str | None,
) -> int:
    if bool(words) == bool(attach):
        return _end("name a command behind --, like `-- mpiexec hostname`, or --attach ID, and not both", SSH_FAILED)
    try:
        cluster = PlainCluster(stack, folder)
        with to_master(cluster, identity) as master:
            if attach:
                return _follow(master, attach, stack)
            id = remote_run.new_id()
            remote_run.start(_bash(master), id, words, workdir or cluster.shared)
            if detach:
                print(id)
                return 0
            return _follow(master, id, stack)
    except Failed as error:
        return _end(str(error), SSH_FAILED)
    except Lost as error:
        return _end(f"{error}{_hint(str(error), stack)}", SSH_FAILED)


def _bash(master: MasterSsh) -> remote_run.Command:
    return lambda script: master.command("bash", "-c", script)


def _follow(master: MasterSsh, id: str, stack: str) -> int:
    try:
        return remote_run.follow(_bash(master), id, remote_run.stdout(), report=lambda line: print(line, file=sys.stderr))
    except KeyboardInterrupt:
        subprocess.run(_bash(master)(remote_run.stop_script(id)), stdin=subprocess.DEVNULL, capture_output=True, check=False)
        return _end(f"{id} was stopped", INTERRUPTED)
    except Lost as error:
        raise Lost(f"{error}; look again with: scripts/cluster run -s {stack} --attach {id}") from None


def _hint(said: str, stack: str) -> str:
    if "Permission denied" in said:
        return f"; add your public key to target.ssh.publicKeys of {stack}, or name its private half with --identity"
    return ""


def _end(message: str, code: int) -> int:
    print(f"cluster run: {message}", file=sys.stderr)
    return code
