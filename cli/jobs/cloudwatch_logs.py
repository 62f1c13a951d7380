"""Read a job's logs from CloudWatch Logs with the caller's AWS credentials."""

from collections.abc import Iterator
from typing import Any

from cli.errors import CommandError, NotFound
from cli.exit_codes import FAILED
from infra.facts.clients import Clients, Denied, is_error, query
from infra.facts.model import FactsError
from infra.jobs import cloudwatch_logs
from infra.jobs.cluster import ClusterDescription


def kept(described: ClusterDescription, namespace: str, job: str) -> dict[str, list[str]]:
    """Return the log lines of the job's last run, keyed by pod.

    Raises NotFound if there are none, and CommandError if AWS rejects the query.
    """
    region, group = described.region, described.log_group
    try:
        return query(region, lambda: _last_run(Clients(region).logs, group, cloudwatch_logs.streams(namespace, job)))
    except Denied as error:
        raise CommandError(f"logs: your AWS credentials lack {error} for the log group {group}", FAILED) from None
    except FactsError as error:
        raise CommandError(f"logs: {error}", FAILED) from None


def _last_run(logs: Any, group: str, prefix: str) -> dict[str, list[str]]:
    pages = logs.get_paginator("describe_log_streams").paginate(logGroupName=group, logStreamNamePrefix=prefix)
    try:
        found = sorted((one for page in pages for one in page["logStreams"]), key=lambda one: one["creationTime"])
    except Exception as error:
        if not is_error(error, "ResourceNotFoundException"):
            raise
        found = []
    if not found:
        raise NotFound(f"the log group {group} has no log stream {prefix}*")
    run = _run(found[-1]["logStreamName"])
    of_run = [one["logStreamName"] for one in found if _run(one["logStreamName"]) == run]
    return {name.rsplit("/", 1)[1]: list(_lines(logs, group, name)) for name in of_run}


def _run(stream: str) -> str:
    return stream.rsplit("/", 1)[0]


def _lines(logs: Any, group: str, stream: str) -> Iterator[str]:
    """Yield the lines of a log stream. At its end, GetLogEvents returns the token that the request contained."""
    token: dict[str, str] = {}
    while True:
        page = logs.get_log_events(logGroupName=group, logStreamName=stream, startFromHead=True, **token)
        yield from ("" if one["message"] == " " else one["message"] for one in page["events"])
        if page["nextForwardToken"] == token.get("nextToken"):
            return
        token = {"nextToken": page["nextForwardToken"]}
