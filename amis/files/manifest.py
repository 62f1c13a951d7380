"""Print the manifest of a provisioned machine. Needs Python 3.8 or newer and no packages: Amazon Linux has 3.9."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import sys
from pathlib import Path


def read_pairs(path: str | Path) -> dict[str, str]:
    """Read lines of NAME=VALUE, without the quotes."""
    return dict(re.findall(r'^(\w+)="?(.*?)"?$', Path(path).read_text(), re.MULTILINE))


def main() -> None:
    amis, system = Path(sys.argv[1]), read_pairs("/etc/os-release")
    ran = [line.split("\t") for line in Path("/etc/gpumpi/provisioners").read_text().splitlines()]
    scripts = sorted((amis / "provisioners").glob("*.sh"))
    mpi = read_pairs("/etc/gpumpi/mpi")
    json.dump(
        {
            "kind": os.environ.get("NODE_KIND", "ec2"),
            "source_image": os.environ.get("SOURCE_IMAGE", ""),
            "system": "{} {}".format(system["ID"], system.get("VERSION_ID", "")),
            "architecture": platform.machine(),
            "kernel": platform.release(),
            "mpi": {"implementation": mpi["MPI_IMPLEMENTATION"], "version": mpi["MPI_VERSION"], "folder": mpi["MPI_FOLDER"]},
            "frameworks": os.environ.get("FRAMEWORKS", "").split(),
            "installed": [name for state, name, _ in ran if state == "done"],
            "skipped": {name: reason for state, name, reason in ran if state == "skipped"},
            "versions": read_pairs(amis / "versions.pkrvars.hcl"),
            "recipe": {script.name: hashlib.sha256(script.read_bytes()).hexdigest() for script in scripts},
            "packages": dict(line.rstrip("\n").split("\t") for line in sys.stdin),
        },
        sys.stdout,
        indent=1,
    )


main()
