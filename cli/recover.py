"""`recover`: repair a stack after `pulumi` was killed."""

import os
import subprocess
import sys
from collections.abc import Callable

from cli import options
from cli.console import print_json
from cli.errors import CommandError, NotFound
from cli.exit_codes import OK
from cli.installation import CLONE
from infra.recovery.recover_stack import Recovered, clients, recover


def command(stack: options.Stack, as_json: options.Json = False) -> int:
    """Run it only while no other Pulumi operation uses the stack. Removes the lock and records what AWS created.

    The next `pulumi up` or `pulumi destroy` continues from there and creates no duplicates.
    """
    _unlock(stack)
    recovered = recover(_pulumi, stack, clients, lambda line: print(line, file=sys.stderr))
    if as_json:
        print_json(recovered._asdict())
    else:
        describe(recovered, print)
    return OK


def describe(recovered: Recovered, report: Callable[[str], None]) -> None:
    texts = {
        "found": "exists and is now in the state",
        "changed": "was being changed or deleted; the state now matches AWS",
        "surplus": "exists twice; the next up or destroy deletes this one",
        "missing": "does not exist; the next up creates it",
    }
    for kind, text in texts.items():
        for name in getattr(recovered, kind):
            report(f"{name} {text}")
    if not any(recovered):
        report("nothing was interrupted")


def _unlock(stack: str) -> None:
    """Remove the lock.

    Ignore errors, because some backends fail if there is no lock. If the lock remains, the next command reports it.
    """
    try:
        _pulumi("cancel", "--yes", "--stack", stack)
    except NotFound:
        raise
    except CommandError:
        return


def _pulumi(*arguments: str, text: str | None = None) -> str:
    command = ["pulumi", *arguments, "--non-interactive"]
    try:
        done = subprocess.run(command, cwd=CLONE, env=os.environ, input=text or "", capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise CommandError("pulumi is not on PATH; install it: https://www.pulumi.com/docs/install/") from None
    if done.returncode:
        reason = done.stderr.strip() or done.stdout.strip()
        kind = NotFound if "no stack named" in reason else CommandError
        raise kind(f"pulumi {' '.join(arguments[:2])}: {reason}")
    return done.stdout
