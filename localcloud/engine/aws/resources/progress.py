"""Waiting for AWS to create or delete a resource, with failures in the official provider's wording."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from localcloud.engine.aws.resource import Aws, Failed

MINUTE = 60.0


class Seen(NamedTuple):
    """One observation of a changing resource."""

    status: str
    cause: str = ""
    """The failure reason reported by AWS."""


def until(
    aws: Aws, doing: str, look: Callable[[], Seen | None], *, target: str, pending: Iterable[str], timeout: float = 20 * MINUTE
) -> None:
    """Wait for `target`; any status that is neither that nor `pending` is a failure. None means not there yet."""
    transient = frozenset(pending)

    def attempt() -> Seen | None:
        seen = look()
        if seen is None or seen.status in transient:
            return None
        if seen.status != target:
            raise Failed(f"waiting for {doing}: {unexpected(seen, target)}")
        return seen

    aws.wait(doing, attempt, timeout=timeout)


def until_gone(
    aws: Aws, doing: str, look: Callable[[], Seen | None], *, failures: Iterable[str] = (), timeout: float = 20 * MINUTE
) -> None:
    """Wait until `look` finds nothing."""
    failed = frozenset(failures)

    def attempt() -> bool | None:
        seen = look()
        if seen is not None and seen.status in failed:
            raise Failed(f"waiting for {doing}: {unexpected(seen, '')}")
        return True if seen is None else None

    aws.wait(doing, attempt, timeout=timeout)


def unexpected(seen: Seen, target: str) -> str:
    """Worded as Terraform's UnexpectedStateError, which is what users search the web for:
    https://github.com/hashicorp/terraform-plugin-sdk/blob/main/helper/retry/error.go
    """
    return f"unexpected state '{seen.status}', wanted target '{target}'. last error: {seen.cause or '%!s(<nil>)'}"


def issues(health: Mapping[str, Any] | None) -> str:
    """Format the health issues of an EKS resource, one per line: resources, code, message."""
    return "\n".join(
        f"{', '.join(issue.get('resourceIds') or ())}: {issue.get('code', '')}: {issue.get('message', '')}"
        for issue in (health or {}).get("issues") or ()
    )
