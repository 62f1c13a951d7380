"""Read a job's logs from CloudWatch Logs with the caller's AWS credentials."""

from collections.abc import Iterator
from typing import Any

from cli.aws_queries import query_aws_for_job
from cli.errors import NotFound
from infra.facts.clients import Clients, is_error
from infra.jobs.cluster import ClusterDescription
from infra.jobs.storage import build_log_stream_prefix


def read_logs(described: ClusterDescription, namespace: str, job: str) -> dict[str, list[str]]:
    """Return the log lines of the job's last run, keyed by pod.

    Raises NotFound if there are none, and CommandError if AWS rejects the query.
    """
    region, group = described.region, described.log_group
    streams = build_log_stream_prefix(namespace, job)
    return query_aws_for_job(
        region, lambda: find_last_run(Clients(region).logs, group, streams), "logs", f"the log group {group}"
    )


def find_last_run(logs: Any, group: str, prefix: str) -> dict[str, list[str]]:
    pages = logs.get_paginator("describe_log_streams").paginate(logGroupName=group, logStreamNamePrefix=prefix)
    try:
        streams = sorted((stream for page in pages for stream in page["logStreams"]), key=lambda stream: stream["creationTime"])
    except Exception as error:
        if not is_error(error, "ResourceNotFoundException"):
            raise
        streams = []
    if not streams:
        raise NotFound(f"the log group {group} has no log stream {prefix}*")
    run = parse_run_id(streams[-1]["logStreamName"])
    of_run = [stream["logStreamName"] for stream in streams if parse_run_id(stream["logStreamName"]) == run]
    return {name.rsplit("/", 1)[1]: list(read_lines(logs, group, name)) for name in of_run}


def parse_run_id(stream: str) -> str:
    return stream.rsplit("/", 1)[0]


def read_lines(logs: Any, group: str, stream: str) -> Iterator[str]:
    """Yield the lines of a log stream. At the end of the stream, GetLogEvents returns the token that the request contained."""
    token: dict[str, str] = {}
    while True:
        page = logs.get_log_events(logGroupName=group, logStreamName=stream, startFromHead=True, **token)
        yield from ("" if event["message"] == " " else event["message"] for event in page["events"])
        if page["nextForwardToken"] == token.get("nextToken"):
            return
        token = {"nextToken": page["nextForwardToken"]}
