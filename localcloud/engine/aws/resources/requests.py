"""Helpers for AWS requests: missing resources, retries, partial creations, EC2 ARNs."""

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from botocore.exceptions import ClientError

from localcloud.engine.aws.resource import Aws, Failed, Partial

T = TypeVar("T")
MINUTE = 60.0


def get_error_code(error: ClientError) -> str:
    """Return the AWS error code, such as `DependencyViolation`."""
    return str(error.response.get("Error", {}).get("Code", ""))


def find_first(describe: Callable[[], list[dict[str, Any]]], *absent: str) -> dict[str, Any] | None:
    """Return the first result of `describe`, or None if there is no result or AWS returns an error code in `absent`."""
    try:
        results = describe()
    except ClientError as error:
        if get_error_code(error) in absent:
            return None
        raise
    return results[0] if results else None


@contextmanager
def ignore_gone(*absent: str) -> Iterator[None]:
    """Ignore AWS errors with a code in `absent`, so that deleting a missing resource succeeds."""
    try:
        yield
    except ClientError as error:
        if get_error_code(error) not in absent:
            raise


@contextmanager
def report_partial_creation(id: str) -> Iterator[None]:
    """Convert failures after creation to `Partial`, so that the engine records the resource's id."""
    try:
        yield
    except (ClientError, Failed) as error:
        raise Partial(id, str(error)) from error


def retry(aws: Aws, what: str, call: Callable[[], T], *transient: str, containing: str = "", timeout: float) -> T:
    """Retry the call while AWS returns an error code in `transient` with a message containing `containing`. On timeout,
    raise the last error."""
    refusals: list[ClientError] = []

    def try_call() -> tuple[T] | None:
        try:
            return (call(),)
        except ClientError as error:
            if get_error_code(error) not in transient or containing not in str(error):
                raise
            refusals.append(error)
            return None

    try:
        return aws.wait(what, try_call, timeout=timeout)[0]
    except Failed:
        if aws.cancelled.is_set():
            raise
        raise refusals[-1] from None


def wait_until_gone(aws: Aws, what: str, describe: Callable[[], Any], *, timeout: float) -> None:
    """Wait until `describe` returns None."""
    aws.wait(f"{what} delete", lambda: True if describe() is None else None, timeout=timeout)


def raise_if_unsuccessful(unsuccessful: list[dict[str, Any]], operation: str) -> None:
    """Raise ClientError if a response with status code 200 lists failures."""
    for item in unsuccessful:
        raise ClientError({"Error": item["Error"]}, operation)


def to_request(args: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return the properties that are set, keyed by their AWS names."""
    return {theirs: args[ours] for ours, theirs in names.items() if args.get(ours) is not None}


def to_state(response: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of an AWS response, keyed by their Pulumi names. Omit missing values and empty strings."""
    return {ours: response[theirs] for ours, theirs in names.items() if response.get(theirs) not in (None, "")}


def describe_network_interfaces(aws: Aws, filter_name: str, id: str) -> None:
    """List the network interfaces that use a subnet or security group, as the official provider does before it deletes it.

    The official provider deletes interfaces that AWS Lambda and other services left behind. The local AWS has none.
    """
    aws.client("ec2").describe_network_interfaces(Filters=[{"Name": filter_name, "Values": [id]}])


def generate_client_token() -> str:
    """Return a random client token, which prevents a retried request from creating a second resource.

    The official provider does the same.
    """
    return uuid.uuid4().hex


def build_ec2_arn(aws: Aws, resource: str, owner: str | None = None) -> str:
    return f"arn:{aws.partition}:ec2:{aws.region}:{owner or aws.account_id}:{resource}"
