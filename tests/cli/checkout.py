"""A copy of this repository, like a user's clone, and its command line."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FOREIGN_SHELL = {
    "AWS_PROFILE": "a-profile-of-another-user",
    "AWS_SESSION_TOKEN": "a-token-of-another-user",
    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true",
    "AWS_ENDPOINT_URL_EKS": "http://127.0.0.1:9",
    "PULUMI_ACCESS_TOKEN": "pul-another-user",
    "http_proxy": "http://127.0.0.1:9",
    "https_proxy": "http://127.0.0.1:9",
}
"""Environment variables of a user who has a real AWS account and works behind a proxy. Nothing listens on port 9."""


@dataclass(frozen=True)
class Checkout:
    """A separate git repository with all files of this repository that git does not ignore, including uncommitted
    changes.
    """

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> "Checkout":
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
        for name in filter(None, names):
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)
        checkout = cls(folder)
        checkout._run_git("init", "--quiet")
        checkout._run_git("add", "--all")
        checkout._run_git("-c", "user.name=test", "-c", "user.email=test@localhost", "commit", "--quiet", "--message", "all")
        return checkout

    def list_changes(self) -> str:
        """Return the output of `git status --porcelain`, which is empty for a clean checkout."""
        return self._run_git("status", "--porcelain")

    def restore(self) -> None:
        self._run_git("checkout", "--quiet", ".")

    def cluster(self, *arguments: str | Path, shell: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run `scripts/cluster` with these arguments and additional environment variables."""
        return self.run_command([sys.executable, "scripts/cluster", *map(str, arguments)], shell)

    def run_local(self, verb: str, home: Path, *arguments: str | Path, shell: dict[str, str] | None = None) -> "Said":
        """Run `scripts/cluster local VERB --home HOME`."""
        return Said(self.cluster("local", verb, "--home", home, *arguments, shell=shell))

    def run_shell(self, home: Path, script: str) -> "Said":
        """Run a script in `sh` after evaluating the output of `scripts/cluster local env`."""
        python, quoted = shlex.quote(sys.executable), shlex.quote(str(home))
        evaluate = f'eval "$({python} scripts/cluster local env --home {quoted})"; python3() {{ {python} "$@"; }}'
        return Said(self.run_command(["sh", "-eu", "-c", f"{evaluate}\n{script}"], FOREIGN_SHELL))

    def run_command(self, command: list[str], shell: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "PULUMI_"))}
        return subprocess.run(
            command,
            cwd=self.folder,
            env=environment | (shell or {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def _run_git(self, *arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=self.folder, capture_output=True, text=True, check=True)
        return done.stdout


class Said:
    """Exit code and output of a command."""

    def __init__(self, result: subprocess.CompletedProcess[str]) -> None:
        self.code = result.returncode
        self.out = result.stdout
        self.err = result.stderr
        assert "Traceback" not in self.err, self.err

    @property
    def parsed_output(self) -> Any:
        return json.loads(self.out)

    def assert_success(self) -> "Said":
        assert self.code == 0, self.err + self.out
        return self


def restore_sigint() -> None:
    """Restore the default handling of SIGINT. Background jobs of a shell ignore SIGINT, and their child processes
    inherit this setting.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
