"""One action that a request needs."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from localcloud.aws.policy_evaluation import Values


@dataclass(frozen=True)
class Need:
    action: str
    resources: tuple[str | None, ...] = ("*",)
    """ARNs that must all be allowed; None for a resource whose ARN is unknown."""
    keys: Mapping[str, Values] = field(default_factory=dict)
    """Condition keys that apply only to this action."""
    error: tuple[str, str] | None = None
    """Code and message of AWS's error, if they differ from the usual ones."""
