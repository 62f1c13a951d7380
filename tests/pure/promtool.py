"""Runs promtool, the Prometheus checker for configurations, rules and queries."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from localcloud.tools import debian


def run_promtool(folder: Path, *arguments: str) -> None:
    """Run promtool in a folder. If it reports errors, fail with its output."""
    program = debian.ensure_package(debian.PROMETHEUS, print) / "promtool"
    done = subprocess.run([program, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def run_tests(folder: Path, rules: Mapping[str, Any], tests: Sequence[Mapping[str, Any]]) -> None:
    """https://prometheus.io/docs/prometheus/latest/configuration/unit_testing_rules/"""
    (folder / "rules.yml").write_text(yaml.safe_dump(dict(rules)))
    content = {"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": list(tests)}
    (folder / "tests.yml").write_text(yaml.safe_dump(content, sort_keys=False))
    run_promtool(folder, "test", "rules", "tests.yml")
