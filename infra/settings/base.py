"""The form of everything that a user writes: what all models of settings and jobs have in common."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class Model(BaseModel):
    """Strict, frozen, camelCase in YAML, unknown keys refused."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True, strict=True, validate_by_name=True)


MountPath = Annotated[str, AfterValidator(lambda path: path.rstrip("/") or path)]
"""`/fsx/` means `/fsx`."""

PublicKeys = Annotated[tuple[Annotated[str, AfterValidator(str.strip)], ...], Field(strict=False)]
"""Lines of `.pub` files, which end with a newline."""

Names = Annotated[tuple[str, ...], Field(strict=False)]
"""YAML has lists; a frozen model has tuples."""
