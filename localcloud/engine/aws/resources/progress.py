"""Wait until AWS has created or deleted a resource. Failures are worded as in the official provider."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from localcloud.engine.aws.resource import Aws, Failed

MINUTE = 60.0


class Seen(NamedTuple):
    """Status of a resource from one poll."""

    status: str
    cause: str = ""
    """The failure reason reported by AWS."""


def await_status(
    aws: Aws, doing: str, look: Callable[[], Seen | None], *, target: str, pending: Iterable[str], timeout: float = 20 * MINUTE
) -> None:
    """Wait until `look` returns the status `target`. Raise Failed for a status that is not in `pending`. If `look`
    returns None, the resource does not exist yet."""
    transient = frozenset(pending)

    def check_status() -> Seen | None:
        current = look()
        if current is None or current.status in transient:
            return None
        if current.status != target:
            raise Failed(f"waiting for {doing}: {format_unexpected_status(current, target)}")
        return current

    aws.wait(doing, check_status, timeout=timeout)


def await_gone(
    aws: Aws, doing: str, look: Callable[[], Seen | None], *, failures: Iterable[str] = (), timeout: float = 20 * MINUTE
) -> None:
    """Wait until `look` returns None. Raise Failed for a status in `failures`."""
    failed = frozenset(failures)

    def check_gone() -> bool | None:
        current = look()
        if current is not None and current.status in failed:
            raise Failed(f"waiting for {doing}: {format_unexpected_status(current, '')}")
        return True if current is None else None

    aws.wait(doing, check_gone, timeout=timeout)


def format_unexpected_status(current: Seen, target: str) -> str:
    """Format the status like Terraform's UnexpectedStateError, so that users can find the message on the web:
    https://github.com/hashicorp/terraform-plugin-sdk/blob/main/helper/retry/error.go
    """
    return f"unexpected state '{current.status}', wanted target '{target}'. last error: {current.cause or '%!s(<nil>)'}"


def format_health_issues(health: Mapping[str, Any] | None) -> str:
    """Format the health issues of an EKS resource, one per line, as `resources: code: message`."""
    return "\n".join(
        f"{', '.join(issue.get('resourceIds') or ())}: {issue.get('code', '')}: {issue.get('message', '')}"
        for issue in (health or {}).get("issues") or ()
    )
