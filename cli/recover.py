"""`scripts/cluster recover`: after a run of Pulumi that was killed, settle what it had begun."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from infra.facts.model import FactsError
from infra.recovery.pending_operations import Unknown
from infra.recovery.recover_stack import Recovered, clients, recover

ROOT = Path(__file__).resolve().parents[1]
FAILED = 1


class PulumiFailed(Exception):
    """A `pulumi` command failed; the text is its own."""


def tell(recovered: Recovered, report: Callable[[str], None]) -> None:
    texts = {
        "found": "is there, and in the state now",
        "changed": "was being changed or deleted; the state has what is there now",
        "surplus": "is there twice; the next up or destroy deletes this one",
        "missing": "is not there; the next up makes it",
    }
    for kind, text in texts.items():
        for name in getattr(recovered, kind):
            report(f"{name} {text}")
    if not any(recovered):
        report("nothing was interrupted")


def run(stack: str, *, as_json: bool) -> int:
    """Recover a stack of the backend and the account that the environment names; 1 where that is not possible."""
    try:
        _unlock(stack)
        recovered = recover(_pulumi, stack, clients, lambda line: print(line, file=sys.stderr))
    except (FactsError, PulumiFailed, Unknown) as error:
        print(error, file=sys.stderr)
        return FAILED
    if as_json:
        print(json.dumps(recovered._asdict()))
    else:
        tell(recovered, print)
    return 0


def _unlock(stack: str) -> None:
    """Some backends call it an error where nothing is locked; if something stays locked, the next command says so."""
    try:
        _pulumi("cancel", "--yes", "--stack", stack)
    except PulumiFailed:
        return


def _pulumi(*arguments: str, text: str | None = None) -> str:
    command = ["pulumi", *arguments, "--non-interactive"]
    try:
        done = subprocess.run(command, cwd=ROOT, env=os.environ, input=text or "", capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise PulumiFailed("there is no pulumi on PATH") from None
    if done.returncode:
        raise PulumiFailed(f"pulumi {' '.join(arguments[:2])}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout
