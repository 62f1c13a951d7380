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

    def event(self, event: Event) -> None:
        raise RuntimeError("no socket")


def cluster_in(folder: Path, **changes: Any) -> Cluster:
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
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setattr(Cluster, "_bring_up", lambda self: self._enter("ready"))
    started = cluster_in(tmp_path)
    started.start()
    yield started
    started.end()
    started.wait()
    problems.forget()


def settled(cluster: Cluster, kind: Any = "node-group", name: str = "demo/train") -> Progress:
    return wait_while(lambda: cluster.progress(kind, name), lambda progress: not progress.done)


def test_a_cluster_without_failures_is_done(cluster: Cluster) -> None:
    assert settled(cluster) == Progress(True)


@pytest.mark.parametrize("daemon", ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "coredns"])
@pytest.mark.parametrize("kind", ["cluster", "node-group", "add-on"])
def test_a_crashed_daemon_ends_every_wait_with_its_last_words(cluster: Cluster, daemon: str, kind: str) -> None:
    settled(cluster)
    cluster.supervisor._starts[daemon] = cast(Any, None)
    cluster.supervisor._crashes[daemon] = Crash(daemon, -9, "/log", "its last words")
    cluster._pending += 1  # one action is waiting for the daemon
    try:
        assert cluster.progress(cast(Any, kind), "demo").problem == (
            f"{daemon} was ended by SIGKILL; the end of /log:\nits last words"
        )
    finally:
        cluster._pending -= 1


def test_a_crash_on_one_node_does_not_concern_other_node_groups(cluster: Cluster) -> None:
    settled(cluster)
    cluster.supervisor._crashes["kubelet-ip-10-0-0-9"] = Crash("kubelet-ip-10-0-0-9", 1, "/log", "")
    assert settled(cluster).problem == ""


def test_a_part_that_fails_on_an_event_fails_the_resource_until_it_handles_one(cluster: Cluster) -> None:
    settled(cluster)
    cluster._parts = [Broken(cluster), Part(cluster)]
    cluster.handle(ADDON)
    reason = "Broken of cluster demo (add-on demo/aws-efs-csi-driver created) failed: no socket"
    assert settled(cluster, ADDON.kind, ADDON.name).problem == reason
    assert problems.found() == [reason]
    assert settled(cluster).problem == "", "other resources are not affected"
    cluster._parts = [Part(cluster)]
    cluster.handle(ADDON)
    assert settled(cluster, ADDON.kind, ADDON.name).problem == ""


def test_a_cluster_whose_thread_has_ended_fails_its_operations(tmp_path: Path) -> None:
    assert cluster_in(tmp_path).progress("cluster", "demo") == Progress(True, "the thread of cluster demo has ended")


def test_a_failure_that_cannot_be_published_does_not_end_the_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: Cluster) -> None:
        raise OSError("no space left on device")

    def failing(_: Cluster) -> None:
        raise RuntimeError("etcd does not start")

    monkeypatch.setattr(Cluster, "_bring_up", failing)
    cluster = cluster_in(tmp_path, on_change=full)
    cluster.start()
    assert settled(cluster, "cluster", "demo").problem == "etcd does not start"
    monkeypatch.setattr(cluster, "_on_change", lambda _: None)
    cluster.end()
    cluster.wait()
    assert cluster.is_gone
    problems.forget()


def test_a_state_that_cannot_be_published_fails_the_cluster(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled(cluster)

    def broken(self: Realizer, _: Cluster) -> None:
        raise KeyError("demo")

    monkeypatch.setattr(Realizer, "_show", broken)
    realizer = Realizer(tmp_path / "realizer", ("127.0.0.1", 1), lambda _: lambda: None)
    try:
        realizer._clusters[(WHERE["account"], WHERE["region"], "demo")] = cluster
        assert not realizer.progress("cluster", "demo", **WHERE).done
        realizer._changes.put(cluster)
        state = wait_while(lambda: realizer.progress("cluster", "demo", **WHERE), lambda progress: not progress.done)
        assert state.problem == "publishing the state of cluster demo failed: KeyError('demo')"
    finally:
        realizer._clusters.clear()
        realizer.close()
