"""`recover`: repair a stack after `pulumi` was killed or interrupted."""

import json
import sys

from cli import options
from cli.console import print_result
from cli.errors import CommandError, NotFound
from cli.stacks import pulumi_program
from infra.naming import PROJECT
from infra.recovery.recover_stack import Recovered, create_client_factory, recover, repair_backend


def command(stack: options.Stack, as_json: options.Json = False) -> int:
    """Run it only while no other Pulumi operation uses the stack. Removes the lock and records what AWS and Kubernetes created.

    The next `pulumi up` or `pulumi destroy` continues from there and creates no duplicates.
    """
    repair_backend(json.loads(pulumi_program.run_pulumi("whoami", "--json"))["url"], PROJECT, stack)
    _remove_lock(stack)
    recovered = recover(pulumi_program.run_pulumi, stack, create_client_factory, lambda line: print(line, file=sys.stderr))
    return print_result(recovered._asdict(), lambda: _print_result(recovered), as_json=as_json)


def _print_result(recovered: Recovered) -> None:
    texts = {
        "found": "exists and is now in the state",
        "changed": "was being changed or deleted; the state now matches AWS",
        "surplus": "exists twice; the next up or destroy deletes this one",
        "missing": "does not exist; the next up creates it",
    }
    for kind, text in texts.items():
        for name in getattr(recovered, kind):
            print(f"{name} {text}")
    if not any(recovered):
        print("nothing was interrupted")


def _remove_lock(stack: str) -> None:
    """Remove the lock.

    Ignore errors, because some backends fail if there is no lock. If the lock remains, the next command reports it.
    """
    try:
        pulumi_program.run_pulumi("cancel", "--yes", "--stack", stack)
    except NotFound:
        raise
    except CommandError:
        return
