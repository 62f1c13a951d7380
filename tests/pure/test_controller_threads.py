"""Threads and rounds of the job controller: no failure ends them silently, and a slow namespace does not delay another one."""

import copy
from itertools import pairwise
from typing import Any

import pytest

from infra.naming import JOB_LABEL
from infra.platform.job_controller.in_pod import controller, health, mirror
from infra.platform.job_controller.in_pod.api import ApiError, build_resource_path
from infra.platform.job_controller.in_pod.following import Following
from infra.platform.job_controller.in_pod.health import LONGEST_PAUSE_SECONDS, PAUSE_SECONDS, Guard, Health
from infra.platform.job_controller.in_pod.logs import Logs, Source
from infra.platform.job_controller.in_pod.mirror import Mirror
from tests.pure.controlled_jobs import Controlled, make_condition, make_job, make_main_object, make_timestamp
from tests.pure.controller_world import NAMESPACES, LocalApi, World, parse_namespace


class Ended(BaseException):
    """The test has seen enough rounds of a thread."""


class Lists:
    """API server that answers list requests one after the other, and ends each watch at once."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    def copy(self) -> "Lists":
        return self

    def read_list(self, path: str, query: Any, add: Any) -> str:
        answer = self.answers.pop(0) if self.answers else {}
        if isinstance(answer, Exception):
            raise answer
        for uid, data in answer.items():
            add({"metadata": {"uid": uid, "name": uid}, "data": data})
        return "1"

    def watch(self, path: str, query: Any) -> Any:
        return iter(())


def run_mirror(cache: Mirror, monkeypatch: pytest.MonkeyPatch, pauses: int) -> list[float]:
    """Run a mirror's thread until it has paused the given number of times, and return the pauses."""
    slept: list[float] = []

    def record_sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == pauses:
            raise Ended

    monkeypatch.setattr(mirror.time, "sleep", record_sleep)
    with pytest.raises(Ended):
        cache.run()
    return [pause for pause in slept if pause]


def make_mirror(*answers: Any, trim: Any = dict) -> Mirror:
    api: Any = Lists(*answers)
    return Mirror(api, "api/v1/namespaces/team-a/pods", "Pod", lambda: None, trim)


@pytest.mark.parametrize("error", [RecursionError(), KeyError("metadata"), ValueError("not JSON"), MemoryError()])
def test_watch_cache_recovers_after_an_error_and_is_unsynced_until_then(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = make_mirror({"one": {}}, error, {"one": {}, "two": {}})
    cache.is_synced.set()
    api: Any = cache._api
    api.watch = lambda path, query: (_ for _ in ()).throw(error)
    run_mirror(cache, monkeypatch, 3)
    assert not cache.is_synced.is_set() and [cached_object["metadata"]["uid"] for cached_object in cache.objects()] == ["one"]
    api.watch = lambda path, query: iter(())
    run_mirror(cache, monkeypatch, 2)
    assert cache.is_synced.is_set() and len(cache.objects()) == 2


def test_unreadable_object_does_not_hide_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def trim_object(manifest: Any) -> Any:
        return {**manifest, "data": manifest["data"]["key"]}

    cache = make_mirror({"bad": {}, "good": {"key": 1}}, trim=trim_object)
    run_mirror(cache, monkeypatch, 2)
    assert [cached_object["metadata"]["uid"] for cached_object in cache.objects()] == ["good"] and cache.is_synced.is_set()


def test_watch_cache_pauses_between_watches_and_after_expired_resource_version(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_mirror(make_mirror({}), monkeypatch, 6) == [mirror.PAUSE_SECONDS] * 5
    expired = [ApiError(410, "Expired", "too old resource version")] * 3
    assert run_mirror(make_mirror(*expired), monkeypatch, 3) == [1.0, 2.0, 4.0]


def test_health_check_covers_every_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Mirror, "start", lambda self: None)
    monkeypatch.setattr(Logs, "start", lambda self: None)
    now = [0.0]
    monkeypatch.setattr(health.time, "monotonic", lambda: now[0])
    world = World()
    world.health = Health()
    world.start()
    world.controller.stop()
    world.controller.run()
    threads = [*world.controller._cluster._mirrors.values(), world.controller._cluster._nodes]
    hearts = [*(thread.heart for thread in threads), world.controller._following._logs.heart, world.election.heart]
    assert len(hearts) == 15 and world.health.is_alive
    now[0] = 10_000.0
    for silent in hearts:
        for heart in hearts:
            heart.beat()
        world.health.beat()
        assert world.health.is_alive
        silent._last = 0.0
        assert not world.health.is_alive


def test_unreadable_log_does_not_block_other_logs() -> None:
    class Server:
        def copy(self) -> "Server":
            return self

        def read_content(self, path: str, query: Any) -> bytes:
            if "bad" in path:
                raise RecursionError
            return b"2026-11-23T12:00:00Z step 1\n"

    api: Any = Server()
    logs = Following(api)._logs
    sources = {name: Source("team-a", name, name, "launcher", "") for name in ("bad", "good")}
    logs.follow(sources)
    logs.read_all()
    assert [text for _, text in logs.take(sources["good"]).lines] == ["step 1"]


PODS = "api/v1/namespaces/{}/pods/{}"


@pytest.mark.parametrize("name", ["x?force=1", "x#y", "a b", "\u00e9", "x&y=z", "x;y"])
def test_a_name_in_a_path_is_quoted(name: str) -> None:
    world = World()
    for names in (("team-a", name), (name, "train-worker-1")):
        with pytest.raises(ApiError, match="404"):
            LocalApi(world.server).call("DELETE", build_resource_path(PODS, *names))
    for _, url in world.server.changes:
        assert url.isascii() and not {"?", "#", " ", "&"} & set(url) and url.count("/") == 6


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../../namespaces/team-b/pods/x", "%2e%2e", "team-b%2Fpods%2Fx", "x/.."])
def test_object_name_with_slashes_is_refused(name: str) -> None:
    world = World()
    for names in (("team-a", name), (name, "train-worker-1")):
        with pytest.raises(ValueError, match="is not the name of an object"):
            LocalApi(world.server).call("DELETE", build_resource_path(PODS, *names))
    assert world.server.changes == []


@pytest.mark.parametrize(
    "path", ["api/v1/namespaces/../nodes/one", "api//v1/nodes", "api/v1/namespaces/team-b%2Fpods%2Fx", "%2e%2e"]
)
def test_ambiguous_request_path_is_refused(path: str) -> None:
    world = World()
    with pytest.raises(ValueError, match="is not the path of a resource"):
        LocalApi(world.server).call("DELETE", path)
    assert world.server.changes == []


def test_failing_task_is_retried_with_longer_delays() -> None:
    now = [0.0]
    guard, calls = Guard(lambda: now[0]), list[float]()

    def fail_task() -> None:
        calls.append(now[0])
        raise RuntimeError

    for second in range(2000):
        now[0] = float(second)
        guard.run("task", fail_task)
        assert guard.run("another", lambda: 1) == 1
    pauses = [later - earlier for earlier, later in pairwise(calls)]
    assert pauses == [PAUSE_SECONDS * 2**number for number in range(6)] + [LONGEST_PAUSE_SECONDS] * (len(pauses) - 6)
    now[0] += LONGEST_PAUSE_SECONDS
    assert guard.run("task", lambda: 2) == 2
    assert guard.run("task", fail_task) is None and calls[-1] == now[0]


class SlowWorld(World):
    """Environment in which each write about team-a takes 30 seconds and fails, as with a webhook that does not answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.now = 1000.0
        monkeypatch.setattr(controller.time, "monotonic", lambda: self.now)
        self.server.refuse = self._refuse_reads
        for number in range(5):
            job = copy.deepcopy(self.make_job("team-a"))
            job["metadata"] |= {"name": f"other-{number}", "uid": f"{number}-uid"}
            job["metadata"]["labels"]["gpumpi.io/job"] = f"other-{number}"
            self.server.add("apis/batch/v1/namespaces/team-a/jobs", job)

    def _refuse_reads(self, method: str, url: str) -> int | None:
        if method == "GET" or "/team-a/" not in url:
            return None
        self.now += 30
        return 500

    def count_changes(self, namespace: str) -> int:
        return sum(parse_namespace(change) == namespace for change in self.server.changes)


def test_a_slow_namespace_delays_others_by_one_request_per_round(monkeypatch: pytest.MonkeyPatch) -> None:
    world = SlowWorld(monkeypatch)
    world.start()
    world.run()
    assert world.count_changes("team-a") == 1
    assert ("DELETE", "/api/v1/namespaces/team-b/pods/train-worker-1") in world.server.changes


def test_every_job_of_a_slow_namespace_gets_its_turn(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    world = SlowWorld(monkeypatch)
    monkeypatch.setattr(controller, "Guard", lambda: Guard(lambda: world.now))
    world.start()
    world.run(rounds=6)
    attempts = [line.partition(":")[0] for line in capsys.readouterr().err.splitlines() if line.startswith("team-a/")]
    assert len(attempts) == len(set(attempts)) == 6


def test_new_controller_deletes_workers_left_by_its_predecessor() -> None:
    """The previous controller was killed after it had recorded the end of the job, whose workers wait in the queue."""
    world, namespace, path = World(), NAMESPACES[0], f"apis/batch/v1/namespaces/{NAMESPACES[0]}/jobs"
    failed = make_main_object("standalone", conditions=[make_condition("Failed", 40)])
    failed["metadata"] |= {"namespace": namespace}
    workers_set = {"name": "train-worker", "labels": {JOB_LABEL: "train"}, "creationTimestamp": make_timestamp(0)}
    world.server.objects[path] = {}
    world.server.add(path, failed)
    world.server.add(f"apis/apps/v1/namespaces/{namespace}/statefulsets", {"metadata": workers_set, "spec": {"replicas": 2}})
    world.server.objects[f"api/v1/namespaces/{namespace}/pods"] = {}
    controlled = Controlled()
    controlled.run_round(make_job(failed, []), 41)
    assert controlled.record is not None
    world.add_record(namespace, controlled.record)
    world.start()
    assert ("PATCH", f"/apis/apps/v1/namespaces/{namespace}/statefulsets/train-worker") in world.run()
