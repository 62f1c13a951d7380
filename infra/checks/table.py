"""Table in docs/reference/plan-checks.md: the AWS operations on which each check depends."""

from collections.abc import Iterator

from infra.checks import images, limits, permissions
from infra.checks.rules import group_operations_by_topic
from infra.facts.account_limits import LIMITS


def list_rows() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each check with the AWS operations on which it depends."""
    yield from group_operations_by_topic().items()
    for limit in LIMITS:
        quota = () if limit.quota_is_in_summary else ("servicequotas:GetServiceQuota",)
        yield limit.name, (*quota, *limit.counted_by)
    yield limits.SERVICE_LINKED, ("iam:GetRole", permissions.OPERATION)
    yield permissions.NAME, (permissions.OPERATION,)
    yield images.EXIST, (images.OPERATION,)
    yield images.EFA, ()


def render_markdown() -> str:
    lines = ["| check | AWS operations |", "|---|---|"]
    lines += [
        f"| {name} | {', '.join(f'`{operation}`' for operation in operations) or 'none'} |" for name, operations in list_rows()
    ]
    return "\n".join(lines) + "\n"
