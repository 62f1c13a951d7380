"""Action that the caller of a request must be allowed to perform."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from localcloud.aws.policy_evaluation import Values


@dataclass(frozen=True)
class Need:
    action: str
    resources: tuple[str | None, ...] = ("*",)
    """ARNs on which policies must allow the action; None for a resource whose ARN is unknown."""
    keys: Mapping[str, Values] = field(default_factory=dict)
    """Condition keys that apply only to this action."""
    tag_specifications: Sequence[Mapping[str, Any]] | None = None
    """EC2's TagSpecifications, whose tags apply only to new resources of a type; None if the tags in the request apply to
    all resources."""
    error: tuple[str, str] | None = None
    """Code and message of AWS's error, if they differ from the service's usual error for a denied request."""
