"""Runs the Pulumi program with earlier pins, for tests that upgrade an existing deployment."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import yaml

from localcloud.processes import ROOT
from localcloud.stack import LocalStack


def copy_program(folder: Path, pins: Mapping[str, str], module: str = "infra/versions.py") -> Path:
    """Copy the Pulumi program. In the copy's module, replace each key of `pins` with its value."""
    shutil.copytree(ROOT / "infra", folder / "infra", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("__main__.py", "Pulumi.yaml"):
        shutil.copyfile(ROOT / name, folder / name)
    file = folder / module
    text = file.read_text()
    for now, before in pins.items():
        assert text.count(now) == 1, now
        text = text.replace(now, before)
    file.write_text(text)
    return folder


def use_program(stack: LocalStack, folder: Path = ROOT) -> None:
    """Make the stack's next Pulumi operations run the program in this folder."""
    file = stack.project / "Pulumi.yaml"
    file.write_text(yaml.safe_dump({**yaml.safe_load(file.read_text()), "main": str(folder)}, sort_keys=False))
