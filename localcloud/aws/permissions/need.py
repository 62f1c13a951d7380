"""Action that the caller of a request must be allowed to perform."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from localcloud.aws.policy_evaluation import Values


@dataclass(frozen=True)
class Need:
    action: str
    resources: tuple[str | None, ...] = ("*",)
    """ARNs on which policies must allow the action; None for a resource whose ARN is unknown."""
    keys: Mapping[str, Values] = field(default_factory=dict)
    """Condition keys that apply only to this action."""
    error: tuple[str, str] | None = None
    """Code and message of AWS's error, if they differ from the service's usual error for a denied request."""
