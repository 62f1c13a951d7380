"""`settings`: list every setting of a stack file or a job file, read from the Pydantic models."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal, get_args, get_origin

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from cli import options
from cli.console import Listing, make_console, print_json
from cli.exit_codes import OK
from infra.config.models import SELECTS, list_leaf_types
from infra.jobs.model import Job
from infra.jobs.pod_overrides import RoleOverrides
from infra.settings.existing import ExistingSettings
from infra.settings.stack import Settings

FURTHER_DOWN = "see the individual fields."
"""`Change:` text of fields that only group other fields. The table has no rows for these fields."""
INTERNAL = ("region", "stack")
"""Fields that the table leaves out, because a stack file sets them outside `gpumpi:` or not at all."""
LIKE_WORKER = (RoleOverrides, "launcher")
"""Model and name of a field whose nested fields the table leaves out, because the previous field has the same nested fields."""


@dataclass(frozen=True)
class Setting:
    """One row of the configuration table."""

    path: str
    meaning: str
    default: str
    change: str


def list_settings(model: type[BaseModel] = Settings, prefix: str = "") -> Iterator[Setting]:
    """Yield a row for every field of the model and its nested models, in declaration order.

    Fields of jobs are omitted from stack settings, because they have their own table.
    """
    for name, info in model.model_fields.items():
        if model in (Settings, ExistingSettings) and name in INTERNAL:
            continue
        path = f"{prefix}{info.alias or name}"
        inner = [part for part in list_models(info.annotation) if part is not Job and (model, name) != LIKE_WORKER]
        if name == "kind" and info.description is None:  # a discriminator, which the description of the enclosing field explains
            continue
        meaning, _, change = (info.description or "").partition(" Change: ")
        if change != FURTHER_DOWN:
            yield Setting(path, meaning, format_default(info), change)
        listed = any(get_origin(leaf) is tuple for leaf in list_leaf_types(info.annotation))
        printed: set[str] = set()
        for part in inner:
            for row in list_settings(part, f"{path}[]." if listed else f"{path}."):
                if row.path not in printed:
                    printed.add(row.path)
                    yield row


def list_models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    else:
        for argument in get_args(annotation):
            yield from list_models(argument)


def format_default(info: FieldInfo) -> str:
    if info.is_required():
        return "" if info.json_schema_extra == SELECTS else "(required)"
    if isinstance(info.default, BaseModel):
        kind = getattr(info.default, "kind", None)
        return kind if isinstance(kind, str) and kind else ""
    if info.default is None or info.default in ((), {}):
        return ""
    return json.dumps(info.default) if isinstance(info.default, bool) else str(info.default)


def render_settings_table(model: type[BaseModel] = Settings) -> str:
    """Return the settings of the model as a Markdown table. No row has an effect of a change, because the fields of a
    submitted job never change."""
    is_job = model is Job
    lines = ["| field | meaning | default |", "|---|---|---|"]
    if not is_job:
        lines = ["| setting | meaning | default | a change |", "|---|---|---|---|"]
    for row in list_settings(model):
        default = f"`{row.default}`" if row.default else ""
        lines.append(f"| `{row.path}` | {row.meaning} | {default} |" + ("" if is_job else f" {row.change} |"))
    return "\n".join(lines) + "\n"


OF: dict[str, type[BaseModel]] = {"stack": Settings, "existing": ExistingSettings, "job": Job}


def command(
    form: Annotated[Literal["table", "markdown", "json"], typer.Option("--format", help="Output format.")] = "table",
    of: Annotated[
        Literal["stack", "existing", "job"],
        typer.Option(help="A stack in AWS, a stack of an existing Kubernetes cluster, or a job file."),
    ] = "stack",
    as_json: options.Json = False,
) -> int:
    """Prints the meaning and default of each setting, and what a change does to a live cluster."""
    if as_json or form == "json":
        print_json([asdict(row) for row in list_settings(OF[of])])
    elif form == "markdown":
        print(render_settings_table(OF[of]), end="")
    else:
        rows = [(row.path, row.meaning, row.default, row.change) for row in list_settings(OF[of])]
        make_console().print(Listing("setting", "meaning", "default", "a change", rows=rows))
    return OK
