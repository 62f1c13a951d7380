"""`recover`: repair a stack after `pulumi` was killed or interrupted."""

import json
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from cli import options, prompts
from cli.console import print_result, say
from cli.durations import format_period
from cli.errors import CommandError, NotFound
from cli.stacks import pulumi_program
from infra.naming import PROJECT
from infra.recovery.backend_locks import BackendLock, read_locks
from infra.recovery.recover_stack import Recovered, create_client_factory, recover, repair_backend


def command(
    stack: options.Stack,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Remove the lock even if its Pulumi operation may still be running.")
    ] = False,
    as_json: options.Json = False,
) -> int:
    """Run it only while no other Pulumi operation uses the stack. Removes the lock and records what AWS and Kubernetes created.

    It asks for confirmation if the lock's process still runs on this machine, or if another machine took the lock less than
    6 hours ago.

    The next `pulumi up` or `pulumi destroy` continues from there and creates no duplicates.
    """
    url = json.loads(pulumi_program.run_pulumi("whoami", "--json"))["url"]
    _confirm_removal(read_locks(url, PROJECT, stack), stack, datetime.now(UTC), yes=yes)
    repair_backend(url, PROJECT, stack)
    _remove_lock(stack)
    recovered = recover(pulumi_program.run_pulumi, stack, create_client_factory, say)
    return print_result(recovered._asdict(), lambda: _print_result(recovered), as_json=as_json)


def _confirm_removal(locks: list[BackendLock] | None, stack: str, now: datetime, *, yes: bool) -> None:
    """Show the locks, and ask whether to remove those of operations that may still run. Without this question, another operation
    would go on writing the state, and one of the two states would be lost."""
    if locks is None:
        removal = f"removal of a lock of {stack}, whose owner the backend does not show,"
    else:
        shown = [f"lock of {lock.owner}, taken {format_period(max(now - lock.taken, timedelta()))} ago" for lock in locks]
        for text in shown:
            say(f"{stack}: {text}")
        unsafe = [text for lock, text in zip(locks, shown, strict=True) if lock.may_be_in_use(now)]
        if not unsafe:
            return
        removal = f"removal of the {' and the '.join(unsafe)},"
    question = f"Does no other Pulumi operation use {stack}, so that its lock may be removed?"
    prompts.confirm(question, removal, "changed", yes=yes, terminal=prompts.is_interactive())


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
