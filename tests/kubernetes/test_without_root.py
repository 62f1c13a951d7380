"""Kubernetes without root: an API server on 127.0.0.1, and a message that explains why there are no real nodes."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from localcloud import instance
from localcloud.instance import LocalCloud
from localcloud.kubernetes import capability
from testkit.eks_clusters import PRIVATE, Account, find_leftovers
from tests.kubernetes import aws_without_root

pytestmark = pytest.mark.xdist_group("kubernetes")


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalCloud]:
    monkeypatch.setattr(instance, "AWS_MODULE", aws_without_root.__name__)
    monkeypatch.setattr(capability, "check_machine", lambda: aws_without_root.NOTHING)
    cloud = LocalCloud(tmp_path / "cloud")
    try:
        yield cloud
    finally:
        cloud.stop()
        assert find_leftovers(cloud) == []


def test_without_root_the_api_server_runs_on_loopback_and_the_reason_is_reported(cloud: LocalCloud, tmp_path: Path) -> None:
    said: list[str] = []
    cloud.start(said.append, kubernetes=True)
    assert said[-1] == (
        "this machine can run Kubernetes only with simulated nodes, which cannot run jobs: a test pretends not to be root"
    )
    account = Account(cloud)
    cluster, other = account.create("one"), account.create("two", **PRIVATE)
    assert {cluster.describe()["status"], other.describe()["status"]} == {"ACTIVE"}
    assert [line for line in find_leftovers(cloud) if line.startswith("namespace")] == []
    assert {urlsplit(each.describe()["endpoint"]).hostname for each in (cluster, other)} == {"127.0.0.1"}
    assert {process.name for process in cluster.state.processes} >= {"etcd", "kube-apiserver", "kube-scheduler"}

    config = cluster.write_kubeconfig(tmp_path / "config")
    assert "namespace/kube-system" in cluster.kubectl(config, "get", "namespaces", "--output", "name").stdout
    processes = cluster.state.processes
    cluster.delete()
    assert [process.name for process in processes if process.find_process()] == []
    assert other.describe()["status"] == "ACTIVE"
