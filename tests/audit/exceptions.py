"""Accepted checkov findings, each with a reason."""

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml

from tests.audit.scanner import Finding, Report


class Exceptions:
    """Accepted findings from one YAML file. Each row contains a check ID, a resource pattern and a reason."""

    def __init__(self, file: str) -> None:
        self._rows: list[dict[str, str]] = yaml.safe_load((Path(__file__).parent / file).read_text())

    def find_unexplained(self, report: Report) -> set[Finding]:
        return {finding for finding in report.failures if self._find_row(finding) is None}

    def find_unneeded(self, report: Report) -> list[Any]:
        """Return the exceptions that match no finding or have a reason of at most five words."""
        used = [self._find_row(finding) for finding in report.failures]
        return [row for row in self._rows if row not in used or len(row["reason"].split()) <= 5]

    def _find_row(self, finding: Finding) -> dict[str, str] | None:
        fitting = (row for row in self._rows if row["check"] == finding.check and fnmatchcase(finding.resource, row["resource"]))
        return next(fitting, None)
