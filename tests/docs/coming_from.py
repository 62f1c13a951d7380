"""Extract the examples from docs/guides/coming-from.md: commands and files. A file's first comment gives the file name."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from tests.docs.tables import ROOT

PAGE = (ROOT / "docs" / "guides" / "coming-from.md").read_text()
SYSTEMS = ("MPIJob", "PyTorchJob and TrainJob", "Slurm and ParallelCluster", "SkyPilot", "HyperPod")
_BLOCK = re.compile(r"^```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"^(?:#!.*\n)?# ([\w.]+\.(?:yaml|sbatch))$", re.MULTILINE)


@dataclass(frozen=True)
class Command:
    """A `scripts/cluster` command on the page."""

    arguments: list[str]
    """Arguments, with full paths for the example's files."""
    output: Path | None
    """File to which the command's output is redirected, if any."""

    @property
    def verb(self) -> str:
        return self.arguments[0]


def write_examples(system: str, folder: Path) -> list[Command]:
    """Write the files in a system's section to a folder, and return the section's commands in order."""
    commands: list[Command] = []
    for block in _BLOCK.findall(read_section(system)):
        if named := _NAME.match(block):
            (folder / named[1]).write_text(block)
        else:
            commands += [_parse_command(line, folder) for line in block.splitlines()]
    return commands


def read_section(system: str) -> str:
    match = re.search(rf"^## {system}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert match, system
    return match[1]


def _parse_command(line: str, folder: Path) -> Command:
    program, *words = shlex.split(line, comments=True)
    assert program == "scripts/cluster", line
    output = next((folder / word[1:] for word in words if word.startswith(">")), None)
    files = {path.name: str(path) for path in (*folder.iterdir(), *([output] if output else []))}
    files |= {f"./{name}": path for name, path in files.items()} | {"job.yaml": str(folder / "job.yaml")}
    return Command([files.get(word, word) for word in words if not word.startswith(">")], output)
