"""An operation that waits for a local cluster fails as soon as a component that the operation needs has failed."""

from collections.abc import Iterator
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any, cast

import pytest

from localcloud import problems
from localcloud.aws.events import Event, Progress
from localcloud.kubernetes.cluster import Cluster
from localcloud.kubernetes.part import Part
from localcloud.kubernetes.realizer import Realizer
from localcloud.machine.supervisor import Crash
from testkit.waiting import wait_while

WHERE = {"region": "us-west-2", "account": "123456789012"}
ADDON = Event("add-on", "created", "demo/aws-efs-csi-driver", "us-west-2", "123456789012")


class Broken(Part):
    """A component that fails on every event."""

    def on_event(self, event: Event) -> None:
        raise RuntimeError("no socket")


def make_cluster(folder: Path, **changes: Any) -> Cluster:
    """Return a cluster that starts no processes."""
    settings: dict[str, Any] = {
        "number": 1,
        "name": "demo",
        **WHERE,
        "vpc": IPv4Network("10.0.0.0/16"),
        "services": IPv4Network("172.20.0.0/16"),
        "issuer": "https://issuer",
        "is_public": False,
        "folder": folder,
        "aws": ("127.0.0.1", 1),
        "serve": lambda _: lambda: None,
        "on_change": lambda _: None,
        "namespaces": False,
    }
    return Cluster(**{**settings, **changes})


@pytest.fixture
def started_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setattr(Cluster, "_start_components", lambda self: self._enter_phase("ready"))
    started = make_cluster(tmp_path)
    started.start()
    yield started
    started.end()
    started.wait()
    problems.clear_problems()


def wait_until_done(cluster: Cluster, kind: Any = "node-group", name: str = "demo/train") -> Progress:
    return wait_while(lambda: cluster.progress(kind, name), lambda progress: not progress.done)


def test_cluster_without_failures_reports_done(started_cluster: Cluster) -> None:
    assert wait_until_done(started_cluster) == Progress(True)


@pytest.mark.parametrize("daemon", ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "coredns"])
@pytest.mark.parametrize("kind", ["cluster", "node-group", "add-on"])
def test_crashed_daemon_ends_every_wait_with_its_last_log_lines(started_cluster: Cluster, daemon: str, kind: str) -> None:
    wait_until_done(started_cluster)
    started_cluster.supervisor._starts[daemon] = cast(Any, None)
    started_cluster.supervisor._crashes[daemon] = Crash(daemon, -9, "/log", "its last words")
    started_cluster._pending += 1  # one action is waiting for the daemon
    try:
        assert started_cluster.progress(cast(Any, kind), "demo").problem == (
            f"{daemon} was ended by SIGKILL; the end of /log:\nits last words"
        )
    finally:
        started_cluster._pending -= 1


def test_crash_on_one_node_does_not_affect_other_node_groups(started_cluster: Cluster) -> None:
    wait_until_done(started_cluster)
    started_cluster.supervisor._crashes["kubelet-ip-10-0-0-9"] = Crash("kubelet-ip-10-0-0-9", 1, "/log", "")
    assert wait_until_done(started_cluster).problem == ""


def test_failed_event_handler_fails_resource_until_next_success(started_cluster: Cluster) -> None:
    wait_until_done(started_cluster)
    started_cluster._parts = [Broken(started_cluster), Part(started_cluster)]
    started_cluster.handle(ADDON)
    reason = "Broken of cluster demo (add-on demo/aws-efs-csi-driver created) failed: no socket"
    assert wait_until_done(started_cluster, ADDON.kind, ADDON.name).problem == reason
    assert problems.list_problems() == [reason]
    assert wait_until_done(started_cluster).problem == "", "other resources are not affected"
    started_cluster._parts = [Part(started_cluster)]
    started_cluster.handle(ADDON)
    assert wait_until_done(started_cluster, ADDON.kind, ADDON.name).problem == ""


def test_cluster_fails_its_operations_after_its_thread_has_ended(tmp_path: Path) -> None:
    assert make_cluster(tmp_path).progress("cluster", "demo") == Progress(True, "the thread of cluster demo has ended")


def test_unpublishable_failure_does_not_end_the_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_disk_full(_: Cluster) -> None:
        raise OSError("no space left on device")

    def raise_start_error(_: Cluster) -> None:
        raise RuntimeError("etcd does not start")

    monkeypatch.setattr(Cluster, "_start_components", raise_start_error)
    cluster = make_cluster(tmp_path, on_change=raise_disk_full)
    cluster.start()
    assert wait_until_done(cluster, "cluster", "demo").problem == "etcd does not start"
    monkeypatch.setattr(cluster, "_on_change", lambda _: None)
    cluster.end()
    cluster.wait()
    assert cluster.is_gone
    problems.clear_problems()


def test_unpublishable_state_fails_the_cluster(started_cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wait_until_done(started_cluster)

    def raise_key_error(self: Realizer, _: Cluster) -> None:
        raise KeyError("demo")

    monkeypatch.setattr(Realizer, "_publish_state", raise_key_error)
    realizer = Realizer(tmp_path / "realizer", ("127.0.0.1", 1), lambda _: lambda: None)
    try:
        realizer._clusters[(WHERE["account"], WHERE["region"], "demo")] = started_cluster
        assert not realizer.progress("cluster", "demo", **WHERE).done
        realizer._changes.put(started_cluster)
        state = wait_while(lambda: realizer.progress("cluster", "demo", **WHERE), lambda progress: not progress.done)
        assert state.problem == "publishing the state of cluster demo failed: KeyError('demo')"
    finally:
        realizer._clusters.clear()
        realizer.close()
