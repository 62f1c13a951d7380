"""Base model and field types of everything that users write, settings and jobs; and which values a model accepts."""

from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Final, Union, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic.config import JsonDict
from pydantic.fields import FieldInfo


class Model(BaseModel):
    """Base model: strict, frozen, camelCase keys in YAML, unknown keys rejected."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True, strict=True, validate_by_name=True)
    wrong_variant: ClassVar[str] = ""
    """Message for a setting that only another model of the same union has."""


SELECTS: Final[JsonDict] = {"selects": True}
"""`json_schema_extra` of a required field that selects this model of a union: users may omit it."""


MountPath = Annotated[str, AfterValidator(lambda path: path.rstrip("/") or path)]
"""Mount path without a trailing slash: `/fsx/` becomes `/fsx`."""

PublicKeys = Annotated[tuple[Annotated[str, AfterValidator(str.strip)], ...], Field(strict=False)]
"""Public keys: lines of `.pub` files, without the trailing newline."""

Names = Annotated[tuple[str, ...], Field(strict=False)]
"""A list in YAML, and a tuple in the frozen model."""


def list_leaf_types(annotation: Any) -> list[Any]:
    """Flatten an annotation: `int | Annotated[tuple[str, ...], ...] | None` -> `[int, tuple[str, ...]]`."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return list_leaf_types(get_args(annotation)[0])
    if origin in (Union, UnionType):
        return [leaf for part in get_args(annotation) for leaf in list_leaf_types(part)]
    return [] if annotation is NoneType else [annotation]


def select_models(types: list[Any], value: object) -> list[type[BaseModel]]:
    """Return the models among the types. In a union, return only the model that the value's `kind` or keys select."""
    models = [leaf for leaf in types if isinstance(leaf, type) and issubclass(leaf, BaseModel)]
    if isinstance(value, Mapping) and "kind" in value:
        named = [model for model in models if value["kind"] in list_kinds([model])]
        return named or models
    if isinstance(value, Mapping):
        return [
            model for model in models if bool(list_selector_keys(model)) == bool(list_selector_keys(*models) & value.keys())
        ] or models
    return models


def list_selector_keys(*models: type[BaseModel]) -> set[str]:
    """Return the keys that select one of the models."""
    fields = [field for model in models for field in model.model_fields.values()]
    return {str(field.alias) for field in fields if field.json_schema_extra == SELECTS}


def list_kinds(models: list[type[BaseModel]]) -> list[str]:
    """Return the values of `kind` that distinguish the models of a union."""
    return [
        str(kind)
        for model in models
        if "kind" in model.model_fields
        for leaf in list_leaf_types(model.model_fields["kind"].annotation)
        for kind in get_args(leaf)
    ]


def find_field(types: list[Any], value: object, key: str) -> FieldInfo | None:
    """Return the model field for a key; None if there is none."""
    for model in select_models(types, value):
        for field in model.model_fields.values():
            if field.alias == key and not field.exclude:
                return field
    return None


def find_inner_types(types: list[Any], value: object, key: str | int) -> list[Any]:
    """Return the types that are valid at a key or index."""
    if isinstance(key, str) and (field := find_field(types, value, key)):
        return list_leaf_types(field.annotation)
    container: type = tuple if isinstance(key, int) else dict
    return [
        leaf
        for outer in types
        if get_origin(outer) is container
        for leaf in list_leaf_types(get_args(outer)[0 if container is tuple else 1])
    ]
