"""Run the `pulumi` program on the stacks of this clone."""

import json
import os
import subprocess
import sys
from typing import Any, Final

from cli.errors import CommandError, NotFound
from cli.installation import CLONE

PASSPHRASE_PROBLEMS: Final = {
    "incorrect passphrase": "the passphrase of the stack is wrong",
    "passphrase must be set": "the passphrase of the stack is not set",
}
"""Maps each text in an error message of Pulumi to the problem to report:
https://github.com/pulumi/pulumi/blob/v3.246.0/pkg/secrets/passphrase/manager.go"""

SEVERITIES: Final = ("error", "info#err")
"""Severity of errors from Pulumi and its providers, and severity of text that the Pulumi program printed on stderr:
https://github.com/pulumi/pulumi/blob/v3.246.0/sdk/go/common/diag/sink.go
"""
PROGRAM_ENDED: Final = "Program exited with non-zero exit code"
"""Text of the error that Pulumi adds after the Pulumi program has failed with its own error."""


def run_pulumi(*arguments: str, text: str | None = None) -> str:
    """Run `pulumi` with `text` on stdin, and return its stdout.

    Raises NotFound if the stack does not exist, and CommandError on other errors.
    """
    done = _run_process(*arguments, input=text or "", capture_output=True, text=True)
    if done.returncode:
        reason = _explain_failure(done.stdout, done.stderr)
        if problem := next((problem for text, problem in PASSPHRASE_PROBLEMS.items() if text in reason), None):
            raise CommandError(f"{problem}; set PULUMI_CONFIG_PASSPHRASE to the passphrase with which the stack was created")
        kind = NotFound if "no stack named" in reason else CommandError
        raise kind(f"pulumi {' '.join(arguments[:2])}: {reason}")
    return done.stdout


def _explain_failure(output: str, errors: str) -> str:
    """Return why `pulumi` failed.

    `preview --json` prints the reason on stdout, in a JSON document that also contains the settings.
    """
    try:
        messages = [
            (diagnostic["severity"], str(diagnostic["message"]).strip()) for diagnostic in json.loads(output)["diagnostics"]
        ]
    except (ValueError, KeyError, TypeError):
        messages = []
    for level in SEVERITIES:
        if texts := [text for severity, text in messages if severity == level and text and PROGRAM_ENDED not in text]:
            return "; ".join(texts)
    return errors.strip() or output.strip()


def destroy_stack(stack: str) -> None:
    """Run `pulumi destroy`, with its output on stderr. Raises CommandError."""
    done = _run_process("destroy", "--yes", "--stack", stack, stdin=subprocess.DEVNULL, stdout=sys.stderr)
    if done.returncode:
        raise CommandError(f"pulumi destroy exited with code {done.returncode}; its output is above")


def _run_process(*arguments: str, **options: Any) -> "subprocess.CompletedProcess[str]":
    command = ["pulumi", *arguments, "--non-interactive"]
    try:
        return subprocess.run(command, cwd=CLONE, env=os.environ, check=False, **options)
    except FileNotFoundError:
        raise CommandError("pulumi is not on PATH; install it: https://www.pulumi.com/docs/install/") from None
