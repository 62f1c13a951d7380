"""Old names of fields and values: still accepted, each with a warning that names the current one."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from infra.config.model_types import inner_types, models_for
from infra.config.problems import Problem, path_text, warning

FORMER_NAME: Final = "formerName"
"""Key in a field's `json_schema_extra`. Its value is the old name of the field."""
FORMER_VALUES: Final = "formerValues"
"""Key in a field's `json_schema_extra`. Its value maps old values of the field to current ones."""

Path = tuple[str | int, ...]


def of_fields(model: type[BaseModel]) -> dict[str, str]:
    """Return old name -> current name for the renamed fields of a model."""
    fields = model.model_fields.items()
    return {str(old): field.alias or name for name, field in fields if (old := _extra(field, FORMER_NAME))}


def replaced(model: type[BaseModel], values: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    """Return the values with current names, and a warning for each old name."""
    problems: list[Problem] = []
    return _mapping(values, [model], (), problems), problems


def _inside(value: Any, types: Sequence[Any], path: Path, problems: list[Problem]) -> Any:
    if isinstance(value, Mapping):
        return _mapping(value, types, path, problems)
    if isinstance(value, list | tuple):
        inner = inner_types(list(types), value, 0)
        return [_inside(one, inner, (*path, index), problems) for index, one in enumerate(value)]
    return value


def _mapping(values: Mapping[str, Any], types: Sequence[Any], path: Path, problems: list[Problem]) -> dict[str, Any]:
    models = models_for(list(types), values)
    current = {old: new for model in models for old, new in of_fields(model).items()}
    fields = {field.alias or name: field for model in models for name, field in model.model_fields.items()}
    found: dict[str, Any] = {}
    for key, value in values.items():
        name = current.get(key, key)
        if name != key and name in values:
            problems.append(Problem(path_text((*path, key)), f"is the old name of {name}, which is also set. Remove it."))
            continue
        if name != key:
            problems.append(warning(path_text((*path, key)), f"is the old name of {name}. Rename it."))
        value = _current_value(fields.get(name), value, (*path, key), problems)
        found[name] = _inside(value, inner_types(list(types), values, name), (*path, key), problems)
    return found


def _current_value(field: FieldInfo | None, value: Any, path: Path, problems: list[Problem]) -> Any:
    known = _extra(field, FORMER_VALUES) if field else None
    if not isinstance(value, str) or not isinstance(known, Mapping) or value not in known:
        return value
    current = known[value]
    problems.append(warning(path_text(path), f"{value} is the old name of {current}. Use {current}."))
    return current


def _extra(field: FieldInfo, key: str) -> Any:
    extra = field.json_schema_extra
    return extra.get(key) if isinstance(extra, dict) else None
