"""Parse raw values into models, and describe each type error in one sentence. Placeholders replace unusable values, so
that the validation rules can be applied in the same run."""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any, Generic, Literal, NamedTuple, TypeVar, cast, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from infra.config.messages import (
    describe_empty_value,
    describe_missing_key,
    describe_out_of_range,
    describe_types,
    describe_unknown_key,
    describe_unknown_kind,
    describe_wrong_value,
    find_similar,
)
from infra.config.models import (
    Model,
    find_field,
    find_inner_types,
    list_kinds,
    list_leaf_types,
    list_selector_keys,
    select_models,
)
from infra.config.problems import Problem, format_path
from infra.config.secrets import find_secrets

ModelType = TypeVar("ModelType", bound=BaseModel)
Path = tuple[str | int, ...]

ROUNDS = 4
"""Maximum number of parsing attempts. Each attempt can reveal more errors: a wrong `kind` hides all errors below it."""


FURTHER_KINDS = "furtherKinds"
"""Key in a field's `json_schema_extra`. Its value lists kinds that the field accepts but another model defines."""

SET_ELSEWHERE = {"region": "Write aws:region.", "stack": "The file name sets the stack's name."}


class Encrypted:
    """An encrypted value, which only `pulumi up` can read."""


class Parsed(NamedTuple, Generic[ModelType]):
    """A stack file or job as far as it could be parsed."""

    model: ModelType | None
    """None if too little of the file could be parsed. If there are problems, the model may contain placeholder values."""
    problems: list[Problem]
    placeholders: frozenset[str]
    """Paths of placeholders. The results of rules about these paths are unreliable (`problems.is_unreliable`)."""


def parse_model(model: type[ModelType], values: Mapping[str, object], **fields: str) -> Parsed[ModelType]:
    """Parse raw values into a model, and report all type errors at once.

    `fields` contains the values that do not come from the mapping, such as the stack name.
    """
    problems = list(find_secrets(values))
    data: dict[str, Any] = _remove_encrypted_values(deepcopy(dict(values)), (), problems)
    for key in [key for key in data if not _is_name(key)]:  # pydantic reports no location of such a key
        del data[key]
        problems.append(Problem(ascii(key), "is not the name of a setting. Write a name."))
    for key in sorted(fields.keys() & data.keys()):
        del data[key]
        problems.append(Problem(key, f"is not a setting. {SET_ELSEWHERE[key]}"))
    reported = {problem.path for problem in problems if problem.is_error}
    placeholders = set(reported)
    for attempt in range(ROUNDS):
        try:
            return Parsed(model.model_validate({**data, **fields}), problems, frozenset(placeholders))
        except ValidationError as error:
            for fault in _list_faults(model, data, error.errors(include_url=False)):
                if attempt == 0 and fault.problem.path not in reported:
                    problems.append(fault.problem)
                placeholders.update(fault.placeholder_paths)
                fault.repair(data)
    return Parsed(None, problems, frozenset(placeholders))


def _is_name(key: object) -> bool:
    """Return whether a key is text that can be encoded: YAML keys may be numbers, and may contain half a surrogate pair."""
    return isinstance(key, str) and not any("\ud800" <= character <= "\udfff" for character in key)


def _remove_encrypted_values(value: Any, path: Path, problems: list[Problem]) -> Any:
    """Return the values without the encrypted ones, and report each encrypted value as a problem."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if isinstance(inner, Encrypted):
                where = format_path((*path, key))
                problems.append(Problem(where, "is encrypted, but no setting here is a secret. Write it in plain text."))
        return {
            key: _remove_encrypted_values(inner, (*path, key), problems)
            for key, inner in value.items()
            if not isinstance(inner, Encrypted)
        }
    if isinstance(value, list | tuple):
        return [_remove_encrypted_values(inner, (*path, index), problems) for index, inner in enumerate(value)]
    return value


# --- location of an error, and the types that are valid there ----------------------------------------------------------


class Fault:
    """A value with the wrong type, and its location."""

    def __init__(self, model: type[BaseModel], data: dict[str, Any], error: ErrorDetails) -> None:
        self.kind = error["type"]
        self.bounds: Mapping[str, Any] = error.get("ctx", {})
        self.value = cast(Any, data)
        self.holder: Any = None
        self.holder_types: list[Any] = []
        self.types: list[Any] = [model]
        path: list[str | int] = []
        for step in self._list_path_steps(error):
            path.append(step)
            self.holder, self.holder_types = self.value, self.types
            self.types = find_inner_types(self.types, self.value, step)
            self.value = self.value[step] if step in self.value or isinstance(step, int) else None
        self.path: tuple[Any, ...] = tuple(path)
        self.field = find_field(self.holder_types, self.holder, str(path[-1])) if path else None

    def _list_path_steps(self, error: ErrorDetails) -> Iterator[str | int]:
        """Yield the error's location without the names of union branches, which are not in the user's file."""
        value = cast(Any, self.value)
        steps: tuple[Any, ...] = error["loc"]
        for step in steps:
            if (isinstance(value, Mapping) and step in value) or (isinstance(value, list) and isinstance(step, int)):
                value = value[step]
                yield step
        if error["type"] == "missing":
            yield error["loc"][-1]

    @property
    def problem(self) -> Problem:
        if self.kind.startswith("union_tag_"):
            kind = self.value.get("kind") if isinstance(self.value, Mapping) else None
            valid = [*list_kinds(select_models(self.types, None)), *self._list_further_kinds()]
            return Problem(format_path((*self.path, "kind")), describe_unknown_kind(kind, valid))
        return Problem(format_path(self.path), self._format_message())

    def _list_further_kinds(self) -> list[str]:
        extra = self.field.json_schema_extra if self.field else None
        further = extra.get(FURTHER_KINDS) if isinstance(extra, dict) else None
        return [str(kind) for kind in further] if isinstance(further, list) else []

    def _format_message(self) -> str:
        key = str(self.path[-1])
        if self.kind == "extra_forbidden":
            variants = select_models(self.holder_types, self.holder) if find_field(self.holder_types, None, key) else []
            reasons = [model.wrong_variant for model in variants if issubclass(model, Model) and model.wrong_variant]
            return reasons[0] if reasons else describe_unknown_key(key, self._list_valid_keys())
        if self.kind in ("greater_than", "greater_than_equal", "less_than_equal"):
            return describe_out_of_range(self.value, self.bounds)
        example = self.field.examples[0] if self.field and self.field.examples else None
        if self.kind == "missing":
            return describe_missing_key(key, example)
        choices = [choice for leaf in self.types if get_origin(leaf) is Literal for choice in get_args(leaf)]
        expected = {_classify_type(leaf) for leaf in self.types} - {"choice"}
        if self.value is None or self.value == "":
            return describe_empty_value(
                [*map(str, choices), *describe_types(expected)], required=self.field is not None and self.field.is_required()
            )
        tags = list_kinds(select_models(self.types, None))
        return describe_wrong_value(self.value, expected, choices, tags, key=format_path(self.path), example=example)

    def _list_valid_keys(self) -> list[str]:
        """Return the valid keys of the mapping that contains the value."""
        models = select_models(self.holder_types, self.holder)
        keys = [str(field.alias) for model in models for field in model.model_fields.values() if not field.exclude]
        return [*keys, *list_selector_keys(*select_models(self.holder_types, None))]

    @property
    def placeholder_paths(self) -> set[str]:
        """Paths whose value is unknown: this path and, for a typo, the path that the user probably meant."""
        meant = find_similar(str(self.path[-1]), self._list_valid_keys()) if self.kind == "extra_forbidden" else []
        meant = [key for key in meant if key not in self.holder]  # if both keys are present, the unknown key is not a typo
        return {format_path(self.path), *(format_path((*self.path[:-1], key)) for key in meant)}

    def repair(self, data: dict[str, Any]) -> None:
        """Replace the value with the default, or with a placeholder if there is no default."""
        holder: Any = data
        for step in self.path[:-1]:
            holder = holder[step]
        key = self.path[-1]
        if isinstance(holder, list):
            holder[key] = _build_placeholder(self.types)
        elif (self.field is None and self.kind == "extra_forbidden") or (self.field is not None and not self.field.is_required()):
            holder.pop(key, None)
        else:
            holder[key] = _build_placeholder(self.types)


def _list_faults(model: type[BaseModel], data: dict[str, Any], errors: list[ErrorDetails]) -> list[Fault]:
    """Return one fault per path. In a union, keep the deepest fault: it is in the branch that the user meant."""
    by_path: dict[Path, Fault] = {}
    for error in errors:
        fault = Fault(model, data, error)
        by_path.setdefault(fault.path, fault)
    return [
        fault
        for path, fault in by_path.items()
        if not any(len(other) > len(path) and other[: len(path)] == path for other in by_path)
    ]


def _classify_type(leaf: Any) -> str:
    origin = get_origin(leaf)
    if origin is Literal:
        return "choice"
    if origin is dict or (isinstance(leaf, type) and issubclass(leaf, BaseModel)):
        return "mapping"
    return {bool: "bool", int: "int", float: "number", str: "text"}.get(leaf, "list")


def _build_placeholder(types: list[Any]) -> Any:
    """Return a placeholder value of the first valid type."""
    leaf = types[0]
    form = _classify_type(leaf)
    if form == "choice":
        return get_args(leaf)[0]
    if form == "mapping" and get_origin(leaf) is not dict:
        required = [field for field in leaf.model_fields.values() if field.is_required() and not field.exclude]
        return {str(field.alias): _build_placeholder(list_leaf_types(field.annotation)) for field in required}
    return {"bool": False, "int": 1, "number": 0.0, "text": "", "mapping": {}, "list": []}[form]
