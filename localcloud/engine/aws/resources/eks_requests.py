"""Helpers for EKS requests: waiting for updates, tags by ARN, timestamps."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from localcloud.engine.aws.resource import Args, Aws, State
from localcloud.engine.aws.resources.progress import MINUTE, Seen, await_status
from localcloud.engine.aws.resources.tags import apply_tag_changes

GONE = "ResourceNotFoundException"
UPDATE_TIMEOUT = 60 * MINUTE


def describe_resource(aws: Aws, operation: str, member: str, **key: str) -> dict[str, Any] | None:
    """Return the result of a Describe call, or None if the resource is gone."""
    eks = aws.client("eks")
    try:
        result: dict[str, Any] = getattr(eks, operation)(**key)[member]
    except eks.exceptions.ResourceNotFoundException:
        return None
    return result


def wait_for_update(
    aws: Aws, what: str, update: Mapping[str, Any], owner: Mapping[str, str], timeout: float = UPDATE_TIMEOUT
) -> None:
    """Wait until the update completes. `owner`: the parameters of DescribeUpdate that identify the resource (name, and
    nodegroupName or addonName)."""
    eks = aws.client("eks")
    id = str(update["id"])

    def read_status() -> Seen:
        update = eks.describe_update(updateId=id, **owner)["update"]
        causes = "\n".join(
            f"{', '.join(error.get('resourceIds') or ())}: {error.get('errorCode', '')}: {error.get('errorMessage', '')}"
            for error in update.get("errors") or ()
        )
        return Seen(update["status"], causes)

    await_status(aws, f"{what} ({id})", read_status, target="Successful", pending=["InProgress"], timeout=timeout)


def update_tags(aws: Aws, arn: str, old: State, new: Args) -> None:
    eks = aws.client("eks")
    apply_tag_changes(
        old,
        new,
        remove=lambda keys: eks.untag_resource(resourceArn=arn, tagKeys=keys),
        write=lambda tags: eks.tag_resource(resourceArn=arn, tags=tags),
    )


def format_timestamp(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
