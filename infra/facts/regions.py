"""Names of AWS Regions. The SDK knows the Regions of its release date; AWS decides whether a newer one exists."""

import re
from functools import cache
from typing import Final

from infra.config.messages import find_similar, format_value
from infra.facts.model import FactsError

_NAME: Final = re.compile(r"[a-z]+(-[a-z]+)+-[0-9]+")
_EXAMPLE: Final = "us-west-2"
WRONG: Final = "aws:region is wrong"
"""Reason why AWS was not queried, in addition to the error that names the Region."""


class UnknownRegion(FactsError):
    """The Region does not exist, as far as the SDK and AWS report."""


def is_region_name(text: str) -> bool:
    """Return whether the text looks like a Region name. boto3 cannot create clients for malformed names."""
    return _NAME.fullmatch(text) is not None


@cache
def list_sdk_regions() -> frozenset[str]:
    """Return the Regions of all partitions that the SDK knows."""
    import boto3.session  # slow to import

    session = boto3.session.Session()
    partitions = session.get_available_partitions()
    return frozenset(
        region for partition in partitions for region in session.get_available_regions("ec2", partition_name=partition)
    )


def require_known_region(text: str) -> None:
    """Raise UnknownRegion for a Region that the local AWS does not have: it has only those that the SDK knows."""
    if text not in list_sdk_regions():
        raise UnknownRegion(f"{format_value(text)} is not a known Region. Use one such as {_find_similar_region(text)}")


def describe_malformed_region(text: str) -> str:
    """Return the error for a text that is not a Region name."""
    return f"{format_value(text)} is not a region name. Use one such as {_find_similar_region(text)}"


def build_unknown_region_error(region: str, reason: str) -> UnknownRegion:
    """Return the error for a Region that the SDK does not know, and where AWS rejects requests."""
    problem = f"{format_value(region)} is not a known Region, and AWS rejects requests to it ({reason})"
    return UnknownRegion(f"{problem}. Use one such as {_find_similar_region(region)}")


def _find_similar_region(text: str) -> str:
    return next(iter(find_similar(text, list_sdk_regions())), _EXAMPLE)
