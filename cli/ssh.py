"""`scripts/cluster ssh`: a shell, or a command, on the master."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from cli.exit_codes import INTERRUPTED
from cli.master_ssh import to_master
from cli.plain_cluster import Failed, PlainCluster


def run(stack: str, folder: Path, words: Sequence[str], *, identity: Path | None) -> int:
    try:
        with to_master(PlainCluster(stack, folder), identity) as master:
            # a prompt for a key's passphrase is fine: somebody sits there
            return subprocess.run(
                master.command(*words, batch=False, tty=not words and sys.stdin.isatty()), check=False
            ).returncode
    except Failed as error:
        print(f"cluster ssh: {error}", file=sys.stderr)
        return error.code
    except KeyboardInterrupt:
        return INTERRUPTED
