"""Job file that an import writes. The fields are in the model's order; comments explain their values."""

import textwrap
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from cli.jobs.importing.source import Source
from infra.jobs.model import Job

WIDTH: Final = 110


class _Dumper(yaml.SafeDumper):
    """Writes multi-line strings in block style."""


def _represent_text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _represent_text)


@dataclass
class Draft:
    """Fields of a job, keyed by their names in job files."""

    values: dict[str, Any] = field(default_factory=dict)
    comments: dict[str, str] = field(default_factory=dict)
    env_sources: dict[str, list[Source]] = field(default_factory=dict)
    """Maps a variable in `env` or `secretEnv` to the entries of the source that contain its value."""
    grace_period: Source | None = None
    """Pod spec from which the job's terminationGracePeriodSeconds was read."""

    def set(self, key: str, value: Any, comment: str = "") -> None:
        """Set a field, unless the value is None."""
        if value is None:
            return
        self.values[key] = value
        if comment:
            self.comments[key] = comment

    def add(self, key: str, entries: dict[str, Any], comment: str = "") -> None:
        """Add entries to a field that is a mapping."""
        if entries:
            self.set(key, {**self.values.get(key, {}), **entries}, comment)

    def override(self, role: str, key: str, value: Any) -> None:
        """Extend a list or mapping in a role's `podOverrides`, unless the value is empty."""
        if not value:
            return
        overrides = self.values.setdefault("podOverrides", {}).setdefault(role, {})
        former = overrides.get(key)
        if isinstance(value, list):
            overrides[key] = [*(former or []), *value]
        else:
            overrides[key] = {**(former or {}), **value}

    def as_yaml(self, title: str) -> str:
        """Return the job file, with `title` as its first comment."""
        names = [field.alias or name for name, field in Job.model_fields.items()]
        keys = sorted(self.values, key=names.index)
        return _render_comment(title) + "".join(self._render_field(key) for key in keys)

    def _render_field(self, key: str) -> str:
        dumped = yaml.dump({key: self.values[key]}, Dumper=_Dumper, sort_keys=False, width=WIDTH, allow_unicode=True)
        return _render_comment(self.comments.get(key, "")) + dumped


def _render_comment(text: str) -> str:
    return "".join(f"# {line}\n" for line in textwrap.wrap(text, WIDTH))
