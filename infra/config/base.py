"""Base model and field types of everything that users write: settings and jobs."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class Model(BaseModel):
    """Base model: strict, frozen, camelCase keys in YAML, unknown keys rejected."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True, strict=True, validate_by_name=True)


MountPath = Annotated[str, AfterValidator(lambda path: path.rstrip("/") or path)]
"""Mount path without a trailing slash: `/fsx/` becomes `/fsx`."""

PublicKeys = Annotated[tuple[Annotated[str, AfterValidator(str.strip)], ...], Field(strict=False)]
"""Lines of `.pub` files, without the trailing newline."""

Names = Annotated[tuple[str, ...], Field(strict=False)]
"""List in YAML, tuple in the frozen model."""
