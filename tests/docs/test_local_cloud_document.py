"""The pages about the local cloud match the code."""

import json
import os
import re
from pathlib import Path

import psutil
import pytest

from localcloud import instance
from localcloud.aws import control_actions, extend, faults, patching, server
from localcloud.aws.eks import versions
from localcloud.instance import LocalCloud
from localcloud.keys import Key
from localcloud.kubernetes import realizer
from localcloud.kubernetes.access import review
from localcloud.processes import Server, save_servers
from tests.docs.tables import ROOT

CONCEPTS = ROOT / "docs" / "concepts"
CLOUD = (CONCEPTS / "local-cloud.md").read_text()
LOCAL_AWS = (CONCEPTS / "local-aws.md").read_text()
CONTROL_API = (ROOT / "docs" / "reference" / "control-api.md").read_text()


def read_first_column(page: str, heading: str) -> list[str]:
    """Return the code spans in the first column of the table with this heading."""
    table = page.split(f"| {heading} |", 1)[1].split("\n\n")[0]
    cells = [line.split(" | ")[0] for line in table.splitlines()[2:]]
    return [word for cell in cells for word in re.findall(r"`([^`]+)`", cell)]


def test_the_page_lists_every_file_of_a_local_cloud() -> None:
    assert set(read_first_column(CLOUD, "file or folder")) == {instance.LOCK, *instance.CONTENT} - {"servers.part"}


def test_the_page_lists_every_process() -> None:
    assert set(instance.SERVERS) <= set(read_first_column(CLOUD, "process"))


def test_the_page_lists_every_shell_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.example:3128")
    started = psutil.Process().create_time()
    save_servers([Server(name, os.getpid(), started, 1, "") for name in instance.SERVERS], tmp_path / "servers.json")
    Key.create().save(tmp_path / instance.KEY_FILE)
    assert set(read_first_column(CLOUD, "variable")) == set(LocalCloud(tmp_path).environment())


def test_the_page_lists_every_service_that_extends_moto() -> None:
    extend.extend_moto()
    assert set(read_first_column(LOCAL_AWS, "service")) == {service for service, _ in patching.list_extended_operations()} | {
        "ssm"
    }


def test_the_page_lists_every_control_api_call() -> None:
    extend.extend_moto()
    assert server.__doc__ and review.PATH and realizer.Realizer, "importing these modules registers their calls"
    assert set(read_first_column(CONTROL_API, "call")) == {
        request.replace(" ", " /local-cloud/", 1) for request in control_actions.list_requests()
    }


def test_the_example_fault_can_be_planned() -> None:
    shown = re.search(r"--data '(\{.*\})'", CONTROL_API)
    assert shown
    fault = faults.Fault(**json.loads(shown[1]))
    assert (fault.service, fault.operation, fault.times) == ("ec2", "RunInstances", 3)


def test_the_page_names_every_kubernetes_version_offered_by_eks() -> None:
    offered = [version.name for version in versions.VERSIONS.values() if version.support != "UNSUPPORTED"]
    sentence = f"EKS offers the Kubernetes versions that were available on {versions.AS_OF}: {offered[0]} to {offered[-1]}."
    assert sentence in " ".join(LOCAL_AWS.split())


@pytest.mark.parametrize("name", ["Fargate", "Outposts", "IPv6", "Kubernetes", "Packets"])
def test_the_page_lists_what_is_not_emulated(name: str) -> None:
    assert name in (CONCEPTS / "emulation-limits.md").read_text()
