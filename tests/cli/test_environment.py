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
from localcloud.processes import Server, save


def test_variables_of_a_real_account_are_removed() -> None:
    shell = {"PATH": "/bin", "AWS_PROFILE": "work", "AWS_ENDPOINT_URL_S3": "https://s3.example", "AWS_REGION": "us-west-2"}
    assert environment.without_foreign(shell) == {"PATH": "/bin", "AWS_REGION": "us-west-2"}
    assert {"AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3"} <= set(environment.foreign(shell))


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
def test_requests_to_this_machine_bypass_the_proxy(shell: dict[str, str], hosts: str | None) -> None:
    assert environment.past_proxies(shell) == ({} if hosts is None else {"no_proxy": hosts, "NO_PROXY": hosts})


@pytest.mark.parametrize(
    ("shell", "region"),
    [({}, "us-west-2"), ({"AWS_DEFAULT_REGION": "eu-west-1"}, "eu-west-1"), ({"AWS_REGION": "eu-north-1"}, "eu-north-1")],
)
def test_a_shell_gets_the_default_region_of_its_user(
    shell: dict[str, str], region: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in shell.items():
        monkeypatch.setenv(name, value)
    save([Server(name, os.getpid(), psutil.Process().create_time(), 1, "") for name in SERVERS], tmp_path / "servers.json")
    Key.create().save(tmp_path / KEY_FILE)
    found = LocalCloud(tmp_path).environment()
    assert (found["AWS_REGION"], found["AWS_DEFAULT_REGION"]) == (region, region)


def urn(name: str, token: str = "aws:ec2/subnet:Subnet") -> str:
    return f"urn:pulumi:dev::gpumpi::gpumpi:infra:Network${token}::{name}"


@pytest.fixture
def events(tmp_path: Path) -> EventLog:
    log = EventLog(tmp_path / "events.json")
    log.close()
    return log


def begin(events: EventLog, *urns: str) -> None:
    for one in urns:
        events._take({"resourcePreEvent": {"metadata": {"urn": one, "op": "create"}}})


def test_a_progress_line_names_the_pending_resources(events: EventLog) -> None:
    assert steps.format_progress("up", events, 2.4) == "up, 2 s: Pulumi's engine and the program are starting"
    begin(events, urn("net", "gpumpi:infra:Network"), urn("a"), urn("b"), urn("c"), urn("d"))
    events.steps.append(Step(urn("a"), "create", 0, 1))
    assert steps.format_progress("up", events, 12) == "up, 12 s: 1 resources done, working on b, c and 1 more"
    for name in "bcd":
        events.steps.append(Step(urn(name), "create", 0, 1))
    assert steps.format_progress("up", events, 13) == "up, 13 s: 4 resources done"
