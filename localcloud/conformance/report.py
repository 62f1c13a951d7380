"""Report of a comparison, as JSON and as Markdown."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Result:
    """Comparison of one stack, or of the bad inputs."""

    name: str
    differences: Sequence[str] = ()
    failures: Mapping[str, str] = field(default_factory=dict)
    """Maps a side of the comparison to the reason why its run failed."""
    steps: int = 0
    resources: int = 0
    """Number of compared steps and resources."""

    @property
    def verdict(self) -> str:
        if self.failures:
            return "failed"
        return f"{len(self.differences)} differences" if self.differences else "identical"


@dataclass(frozen=True)
class Report:
    """All results of one run of `make conformance`."""

    date: str
    versions: Mapping[str, str]
    """Maps a program to the version and path of the official program, or to a note that ours was used."""
    not_run: Sequence[str] = ()
    results: Sequence[Result] = ()

    @property
    def has_differences(self) -> bool:
        return any(result.differences or result.failures for result in self.results)

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "identical": not self.has_differences, "complete": not self.not_run}

    def as_markdown(self) -> str:
        lines = [f"# Conformance, {self.date}", "", "| program | version |", "|---|---|"]
        lines += [f"| {name} | {version} |" for name, version in self.versions.items()]
        lines += ["", "| compared | steps | resources | result |", "|---|---|---|---|"]
        lines += [f"| {result.name} | {result.steps} | {result.resources} | {result.verdict} |" for result in self.results]
        lines += ["", *(f"- not run: {reason}" for reason in self.not_run)]
        for result in self.results:
            lines += [f"- {result.name}, {side}: {reason}" for side, reason in result.failures.items()]
            lines += [f"- {result.name}: {text}" for text in result.differences]
        return "\n".join(lines) + "\n"

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "conformance.json").write_text(json.dumps(self.as_json(), indent=1) + "\n")
        (folder / "conformance.md").write_text(self.as_markdown())
