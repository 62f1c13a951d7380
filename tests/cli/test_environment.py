"""Environment variables for shells that use a local cloud, and the progress lines of long operations."""

import os
from pathlib import Path

import psutil
import pytest

from cli.demo import steps
from localcloud import environment
from localcloud.engine_events import EventLog, Step
from localcloud.instance import KEY_FILE, SERVERS, LocalCloud
from localcloud.keys import Key
from localcloud.processes import Server, save_servers


def test_environment_variables_of_a_real_aws_account_are_removed() -> None:
    shell = {"PATH": "/bin", "AWS_PROFILE": "work", "AWS_ENDPOINT_URL_S3": "https://s3.example", "AWS_REGION": "us-west-2"}
    assert environment.remove_foreign_variables(shell) == {"PATH": "/bin", "AWS_REGION": "us-west-2"}
    assert {"AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3"} <= set(environment.list_foreign_variables(shell))


@pytest.mark.parametrize(
    ("shell", "hosts"),
    [
        ({}, None),
        ({"no_proxy": "intra.example"}, None),
        ({"http_proxy": "http://proxy:3128"}, "127.0.0.1,localhost"),
        ({"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "intra.example"}, "intra.example,127.0.0.1,localhost"),
        ({"all_proxy": "http://proxy:3128", "no_proxy": "localhost,.corp"}, "localhost,.corp,127.0.0.1"),
    ],
)
def test_requests_to_localhost_bypass_the_proxy(shell: dict[str, str], hosts: str | None) -> None:
    assert environment.build_no_proxy_variables(shell) == ({} if hosts is None else {"no_proxy": hosts, "NO_PROXY": hosts})


@pytest.mark.parametrize(
    ("shell", "region"),
    [({}, "us-west-2"), ({"AWS_DEFAULT_REGION": "eu-west-1"}, "eu-west-1"), ({"AWS_REGION": "eu-north-1"}, "eu-north-1")],
)
def test_a_shell_gets_the_users_default_region(
    shell: dict[str, str], region: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in shell.items():
        monkeypatch.setenv(name, value)
    save_servers(
        [Server(name, os.getpid(), psutil.Process().create_time(), 1, "") for name in SERVERS], tmp_path / "servers.json"
    )
    Key.create().save(tmp_path / KEY_FILE)
    variables = LocalCloud(tmp_path).environment()
    assert (variables["AWS_REGION"], variables["AWS_DEFAULT_REGION"]) == (region, region)


def make_urn(name: str, token: str = "aws:ec2/subnet:Subnet") -> str:
    return f"urn:pulumi:dev::gpumpi::gpumpi:infra:Network${token}::{name}"


@pytest.fixture
def event_log(tmp_path: Path) -> EventLog:
    log = EventLog(tmp_path / "events.json")
    log.close()
    return log


def start_creations(events: EventLog, *urns: str) -> None:
    for urn in urns:
        events._process_event({"resourcePreEvent": {"metadata": {"urn": urn, "op": "create"}}})


def test_the_progress_line_names_the_pending_resources(event_log: EventLog) -> None:
    assert steps.format_progress("up", event_log, 2.4) == "up, 2 s: Pulumi's engine and the program are starting"
    start_creations(
        event_log, make_urn("net", "gpumpi:infra:Network"), make_urn("a"), make_urn("b"), make_urn("c"), make_urn("d")
    )
    event_log.steps.append(Step(make_urn("a"), "create", 0, 1))
    assert steps.format_progress("up", event_log, 12) == "up, 12 s: 1 resources done, working on b, c and 1 more"
    for name in "bcd":
        event_log.steps.append(Step(make_urn(name), "create", 0, 1))
    assert steps.format_progress("up", event_log, 13) == "up, 13 s: 4 resources done"
