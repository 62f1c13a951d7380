"""`scripts/cluster settings`: everything a stack file may say, from the models themselves."""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from infra.config.parse import leaf_types
from infra.jobs.model import Job
from infra.settings.existing import ExistingSettings
from infra.settings.stack import Settings

FURTHER_DOWN = "see its fields."
"""Says a field that only holds others."""
INTERNAL = ("region", "stack")
"""Fields that a stack file says elsewhere, or not at all."""


@dataclass(frozen=True)
class Setting:
    """One row of the configuration table."""

    path: str
    meaning: str
    default: str
    change: str


def rows(model: type[BaseModel] = Settings, prefix: str = "") -> Iterator[Setting]:
    """Every field of the model and of the models in it, in the order in which they are declared. A job has a table of its own."""
    for name, info in model.model_fields.items():
        if model in (Settings, ExistingSettings) and name in INTERNAL:
            continue
        path = f"{prefix}{info.alias or name}"
        inner = [part for part in _models(info.annotation) if part is not Job]
        if _discriminator(model, name):
            continue
        meaning, _, change = (info.description or "").partition(" Change: ")
        if change != FURTHER_DOWN:
            yield Setting(path, meaning, _default(info), change)
        listed = any(get_origin(leaf) is tuple for leaf in leaf_types(info.annotation))
        seen: set[str] = set()
        for part in inner:
            for row in rows(part, f"{path}[]." if listed else f"{path}."):
                if row.path not in seen:
                    seen.add(row.path)
                    yield row


def _discriminator(model: type[BaseModel], name: str) -> bool:
    """`kind` of one of several kinds: told with the field that holds them."""
    return name == "kind" and model.model_fields[name].description is None


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    else:
        for argument in get_args(annotation):
            yield from _models(argument)


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return "(required)"
    if isinstance(info.default, BaseModel):
        kind = getattr(info.default, "kind", None)
        return kind if isinstance(kind, str) and kind else ""
    if info.default is None or info.default in ((), {}):
        return ""
    return json.dumps(info.default) if isinstance(info.default, bool) else str(info.default)


def job_markdown() -> str:
    """The table in docs/jobs.md."""
    lines = ["| field | meaning | default |", "|---|---|---|"]
    lines += [f"| `{row.path}` | {row.meaning} | {f'`{row.default}`' if row.default else ''} |" for row in rows(Job)]
    return "\n".join(lines) + "\n"


def existing_markdown() -> str:
    """The table in docs/on-premises.md."""
    return markdown(ExistingSettings)


def markdown(model: type[BaseModel] = Settings) -> str:
    """The table in README.md."""
    lines = ["| setting | meaning | default | a change |", "|---|---|---|---|"]
    lines += [
        f"| `{row.path}` | {row.meaning} | {f'`{row.default}`' if row.default else ''} | {row.change} |" for row in rows(model)
    ]
    return "\n".join(lines) + "\n"


FORMATS = ("table", "markdown", "json")


OF: dict[str, type[BaseModel]] = {"stack": Settings, "existing": ExistingSettings, "job": Job}


def run(form: str, of: str = "stack") -> int:
    """Print the table; 2 for a format that is none."""
    for option, value, choices in (("--format", form, FORMATS), ("--of", of, tuple(OF))):
        if value not in choices:
            print(f"{option}: {value!r} is not one of {', '.join(choices)}", file=sys.stderr)
            return 2
    if form == "markdown":
        print(job_markdown() if of == "job" else markdown(OF[of]), end="")
    elif form == "json":
        print(json.dumps([asdict(row) for row in rows(OF[of])], indent=1))
    else:
        from rich.console import Console
        from rich.table import Table

        table = Table("setting", "meaning", "default", "a change")
        for row in rows(OF[of]):
            table.add_row(row.path, row.meaning, row.default, row.change)
        Console().print(table)
    return 0
