"""Programs that build container images. All of them accept the same commands, so any of them can be used."""

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

from cli.errors import CommandError

Name = Literal["docker", "podman", "finch", "buildah"]
NAMES: Final[tuple[Name, ...]] = get_args(Name)
"""Names of the programs, in the order in which they are tried."""
PLATFORM: Final = "linux/amd64"
"""Platform of the images. AWS's images with EFA exist only for x86."""
STDERR: Final = 2
"""File descriptor for the builder's output, because stdout is reserved for the result."""


@dataclass(frozen=True)
class Builder:
    name: str

    def build_command(self, context: Path, dockerfile: str, reference: str, arguments: Mapping[str, str]) -> list[str]:
        flags = [part for name, value in arguments.items() for part in ("--build-arg", f"{name}={value}")]
        options = ["--platform", PLATFORM, "--file", str(context / dockerfile), "--tag", reference, *flags]
        return [self.name, "build", *options, str(context)]

    def build(self, context: Path, dockerfile: str, reference: str, arguments: Mapping[str, str]) -> None:
        self._run_builder(self.build_command(context, dockerfile, reference, arguments), "build the image")

    def push(self, reference: str) -> None:
        self._run_builder([self.name, "push", reference], f"push {reference}")

    def login(self, registry: str, user: str, password: str) -> None:
        """Log in to a registry. The password is passed through stdin, because other users of this machine can read
        command lines.
        """
        command = [self.name, "login", "--username", user, "--password-stdin", registry]
        done = subprocess.run(command, input=password, capture_output=True, text=True, check=False)
        if done.returncode:
            raise CommandError(f"{self.name} could not log in to {registry}: {read_last_line(done.stderr)}")

    def _run_builder(self, command: list[str], purpose: str) -> None:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=STDERR, check=False)
        if done.returncode:
            raise CommandError(f"{self.name} could not {purpose} (exit code {done.returncode}); see its output above")


def choose_builder(name: str | None) -> Builder:
    """Return the requested builder, or the first that works on this machine."""
    reasons = []
    for program in [name] if name else NAMES:
        if (reason := explain_unusable_builder(program)) is None:
            return Builder(program)
        reasons.append(reason)
    fix = f"Install or start {'it' if name else 'one of them'}"
    raise CommandError(f"no program can build images: {'; '.join(reasons)}. {fix}")


def explain_unusable_builder(name: str) -> str | None:
    """Return why a builder cannot be used; None if it can. `version` fails if docker's daemon or finch's virtual
    machine is not running.
    """
    if shutil.which(name) is None:
        return f"{name} is not on PATH"
    done = subprocess.run([name, "version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return f"`{name} version` fails ({read_last_line(done.stderr)})" if done.returncode else None


def read_last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no reason given"])[-1].rstrip(".")
