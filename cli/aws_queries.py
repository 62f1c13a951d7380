"""Query AWS, and end the verb with a one-sentence error if a query fails."""

from collections.abc import Callable
from typing import Any, TypeVar

from cli.errors import CommandError
from cli.exit_codes import REFUSED, UNREACHABLE
from infra.config.stack_file import RawStack
from infra.facts.clients import Denied, query
from infra.facts.model import FactsError

Answer = TypeVar("Answer")


def query_aws(region: str, question: Callable[[], Answer], advice: str = "; ask for that permission") -> Answer:
    """Query AWS. Raises CommandError if the caller lacks the permission, and FactsError on other errors."""
    try:
        return query(region, question)
    except Denied as denied:
        raise CommandError(f"{explain_query_error(denied)}{advice}", UNREACHABLE) from None


def query_aws_for_job(region: str, question: Callable[[], Answer], field: str, resource: str) -> Answer:
    """Query AWS for a value that a job's field needs. Raises CommandError, which names the resource if the caller
    lacks a permission."""
    try:
        return query(region, question)
    except Denied as denied:
        raise CommandError(f"{field}: your AWS credentials lack {denied} for {resource}") from None
    except FactsError as error:
        raise CommandError(f"{field}: {error}") from None


def read_pages(region: str, client: Any, operation: str, key: str, **arguments: Any) -> list[Any]:
    """Return the items of all pages of a response. Raises CommandError if the caller lacks the permission."""
    paginator = client.get_paginator(operation)
    return query_aws(region, lambda: [item for page in paginator.paginate(**arguments) for item in page[key]])


def explain_query_error(error: FactsError | Denied) -> str:
    """Return why a query to AWS failed."""
    return f"you are not allowed to call {error}" if isinstance(error, Denied) else str(error)


def require_region(raw: RawStack) -> str:
    """Return the Region of a stack in AWS. Raises CommandError if its file sets none."""
    if not raw.region:
        raise CommandError("; ".join(map(str, raw.problems)) or "aws:region: is missing", REFUSED)
    return raw.region
