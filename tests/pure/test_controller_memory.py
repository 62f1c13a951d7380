"""Memory of the job controller: it keeps a summary of ended jobs, reads lists in pages, and keeps nothing whose size only
users limit.
"""

import json
import tracemalloc
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from bench.controller_memory import NAMESPACE, build_ended_record, build_running_job, build_worker
from infra.health import documents
from infra.naming import POLICY_ANNOTATION, RECORD_KEY
from infra.platform.job_controller.in_pod import api, logs, pod_exec, stacks, trims
from infra.platform.job_controller.in_pod.api import Api
from infra.platform.job_controller.in_pod.following import MOST_STEPS, Following
from infra.platform.job_controller.in_pod.logs import Logs, Source
from infra.platform.job_controller.in_pod.mirror import Mirror
from infra.platform.job_controller.in_pod.record import MOST_WORKERS, WORKERS_KEPT
from infra.platform.job_controller.in_pod.stacks import Stacks
from infra.platform.job_controller.in_pod.store import Store, trim_config_map
from tests.pure.controlled_jobs import Controlled, make_job, make_main_object, make_pod, make_timestamp, make_workers
from tests.pure.controller_world import Answer, World

Object = dict[str, Any]
RECORDS = "api/v1/namespaces/mpi-jobs/configmaps"


def list_texts(value: Any) -> Iterator[str]:
    """Yield all texts in a value that the controller keeps in memory."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from (*list_texts(key), *list_texts(inner))
    elif isinstance(value, list | tuple | set):
        for inner in value:
            yield from list_texts(inner)
    elif hasattr(value, "__slots__"):
        yield from (str(getattr(value, name)) for name in value.__slots__)


# --- records of ended jobs -----------------------------------------------------------------------------------------------


def test_controller_keeps_no_worker_data_of_ended_jobs() -> None:
    world = World()
    world.server.objects.clear()
    for number in range(20):
        config_map = build_ended_record(number, workers=64)
        config_map["metadata"]["namespace"] = "team-a"
        document = json.loads(config_map["data"][RECORD_KEY]) | {"namespace": "team-a"}
        world.server.add(
            "api/v1/namespaces/team-a/configmaps",
            {"metadata": config_map["metadata"], "data": {RECORD_KEY: json.dumps(document)}},
        )
    world.start()
    assert world.run(rounds=2) == []
    mirrored = world.controller._cluster.records("team-a")
    assert len(mirrored) == 20 and {summary["ended"].ended for summary in mirrored} == {"2026-11-28T16:00:00Z"}
    texts = list(list_texts(mirrored))
    assert not any("-x7k2p" in text or "p5.48xlarge" in text for text in texts)
    assert sum(map(len, texts)) < 20 * 400


def test_record_of_an_ended_job_needs_less_than_2_kib() -> None:
    config_maps = [build_ended_record(number, workers=64) for number in range(50)]
    tracemalloc.start()
    try:
        summaries = [trim_config_map(json.loads(json.dumps(config_map))) for config_map in config_maps]
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(summaries) == 50 and size < 50 * 2048


def test_written_record_of_an_ended_job_is_kept_as_a_summary() -> None:
    class Server(Api):
        def call(self, method: str, path: str, *_: Any, body: Any = None, **__: Any) -> Object:
            return {**body, "metadata": {**body["metadata"], "uid": "uid", "resourceVersion": "2"}}

    store = Store(Server("", 0, None, None))
    assert store.write(json.loads(build_ended_record(1, workers=64)["data"][RECORD_KEY]), None)
    (summary,) = store.records(NAMESPACE, []).values()
    assert summary["record"] is None and not any("-x7k2p" in text for text in list_texts(summary))


def test_record_of_a_job_whose_pods_still_hold_gpus_is_kept_until_they_end() -> None:
    config_map = build_ended_record(1, workers=2)
    document = json.loads(config_map["data"][RECORD_KEY])
    document["workers"][0]["to"] = None
    config_map["data"][RECORD_KEY] = json.dumps(document)
    assert trim_config_map(config_map)["record"] == document


# --- lists ---------------------------------------------------------------------------------------------------------------


class PagedServer:
    """API server with large objects. Like Kubernetes, it returns whole lists from its cache, and pages otherwise."""

    sock = None

    def __init__(self, sizes: list[int]) -> None:
        self.sizes = sizes
        self.pages: list[tuple[int, int]] = []
        """Number of objects and bytes of each answer."""
        self.trimmed: list[str] = []
        self.trimmed_before: list[int] = []
        """Number of objects that had been trimmed at each request."""

    def request(self, method: str, url: str, content: bytes | None, headers: Any) -> None:
        query = {key: values[0] for key, values in parse_qs(urlsplit(url).query).items()}
        start = int(query.get("continue", 0))
        end = len(self.sizes) if query.get("resourceVersion") == "0" else start + int(query.get("limit") or len(self.sizes))
        items = [
            {"metadata": {"uid": str(number), "name": str(number)}, "data": {"text": "x" * size}}
            for number, size in enumerate(self.sizes[start:end], start)
        ]
        following = {"continue": str(end)} if end < len(self.sizes) else {}
        body = {"metadata": {"resourceVersion": "7", **following}, "items": items}
        self._answer = json.dumps(body).encode()
        self.pages.append((len(items), len(self._answer)))
        self.trimmed_before.append(len(self.trimmed))

    def getresponse(self) -> Answer:
        return Answer(200, self._answer)

    def close(self) -> None:
        pass

    def trim(self, item: Object) -> Object:
        self.trimmed.append(item["metadata"]["uid"])
        return {"metadata": item["metadata"]}


class PagedApi(Api):
    def __init__(self, server: PagedServer) -> None:
        super().__init__("", 0, None, None)
        self._server = server

    def copy(self, allows_changes: Any = None) -> "PagedApi":
        return self

    def _connect(self, limit: int) -> Any:
        return self._server


def read_mirror(sizes: list[int]) -> tuple[PagedServer, Mirror]:
    server = PagedServer(sizes)
    mirror = Mirror(PagedApi(server), RECORDS, "ConfigMap", lambda: None, server.trim)
    assert mirror._list_all() == "7"
    return server, mirror


def test_large_list_is_read_page_by_page() -> None:
    server, mirror = read_mirror([1000] * 950)
    assert [count for count, _ in server.pages] == [100] * 9 + [50]
    assert server.trimmed_before == [100 * page for page in range(10)]
    assert len(mirror.objects()) == 950 and not any("data" in item for item in mirror.objects())


def test_page_with_too_many_bytes_is_read_again_with_fewer_objects() -> None:
    server, mirror = read_mirror([1 << 20] * 3 + [10] * 200)
    accepted = [size for _, size in server.pages if size <= api.PAGE_BYTES]
    assert len(mirror.objects()) == 203 and len(server.trimmed) == 203
    assert accepted and server.pages[0][1] > api.PAGE_BYTES


def test_object_larger_than_the_api_server_stores_leaves_the_copies_unsynced() -> None:
    server = PagedServer([10, api.OBJECT_BYTES + 1])
    mirror = Mirror(PagedApi(server), RECORDS, "ConfigMap", lambda: None, server.trim)
    with pytest.raises(ValueError, match="an object has more than 16 MiB"):
        mirror._list_all()


def test_objects_of_jobs_are_kept_without_what_users_can_make_large() -> None:
    main, pod = build_running_job(1, workers=4), build_worker(1, 0)
    for item in (main, pod):
        item["metadata"]["annotations"] = {**item["metadata"].get("annotations", {}), "own": "z" * 200_000}
        item["metadata"]["labels"] |= {"own": "z"}
    job, worker = trims.trim_job(main), trims.trim_pod(pod)
    texts = list(list_texts([job, worker]))
    assert sum(map(len, texts)) < 2000 and not {"VARIABLE_1", "own", "managedFields", "env"} & set(texts)
    assert job["spec"] == {"completionMode": "Indexed", "completions": 4}
    assert POLICY_ANNOTATION in job["metadata"]["annotations"]


@pytest.mark.parametrize("kind", ["mpijob", "standalone", "torchrun"])
def test_controller_decides_the_same_with_trimmed_objects(kind: str) -> None:
    failed = make_pod("train-worker-0", "worker", phase="Failed", code=1, until=40, target="PreemptionByScheduler")
    launcher = make_pod("train-launcher-1", "launcher", phase="Failed", code=137, until=41, gpus=0)
    pods = [failed, *make_workers()[1:], launcher]
    main, decisions = make_main_object(kind), []
    for objects in ((main, pods), (trims.trim_job(main) | {"kind": main["kind"]}, list(map(trims.trim_pod, pods)))):
        loop = Controlled()
        before = make_job(objects[0], [*make_workers(), make_pod("train-launcher-1", "launcher", gpus=0)])
        decisions.append((loop.run_round(before, 30), loop.run_round(make_job(*objects), 50), loop.record))
    assert decisions[0] == decisions[1]
    assert any(outcome for outcome, _ in loop.outcomes)


# --- documents of users --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["[" + "[]," * documents.MOST_PARTS + "[]]", '"' + "x" * documents.MOST_CHARACTERS + '"', '{"a":[' + "{}," * 10**5 + "{}]}"],
)
def test_too_large_document_is_not_parsed(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents.json, "loads", lambda _: pytest.fail("the document was parsed"))
    assert documents.load_json(text) is None


def test_largest_record_of_the_controller_is_not_too_large() -> None:
    config_map = build_ended_record(1, workers=WORKERS_KEPT)
    assert len(config_map["data"][RECORD_KEY]) < documents.MOST_CHARACTERS
    assert "ended" in trim_config_map(config_map) and MOST_WORKERS > WORKERS_KEPT


def test_large_annotation_is_ignored_with_an_event() -> None:
    main = make_main_object(policy={"own": "x" * 20_000})
    managed = make_job(main, make_workers())
    assert managed.policy == {}
    assert managed.ignored_parts_message == f"annotation {POLICY_ANNOTATION}: ignored because it is invalid: all"


# --- logs and dumps ------------------------------------------------------------------------------------------------------


class NoisyApi:
    """API server whose logs never end: each chunk is full, and its lines have 500 characters."""

    def __init__(self) -> None:
        self.reads: dict[str, int] = {}

    def copy(self) -> "NoisyApi":
        return self

    def read_content(self, path: str, query: Mapping[str, str]) -> bytes:
        number = self.reads[path] = self.reads.get(path, 0) + 1
        line = f"2026-11-23T12:{number:02}:00.%06dZ step 1 {'x' * 490}\n"
        return "".join(line % index for index in range(2000)).encode()[: int(query["limitBytes"])]


def test_lines_of_many_noisy_logs_stay_below_the_limit_and_each_log_gets_its_turn() -> None:
    server: Any = NoisyApi()
    reader = Logs(server)
    sources = {str(number): Source("team-a", f"pod-{number}", str(number), "worker", "") for number in range(40)}
    reader.follow(sources)
    turns = set()
    for _ in range(8):
        reader.read_all()
        sizes = {job: reading.size for job, reading in reader._readings.items()}
        assert sum(sizes.values()) <= logs.ALL_WAITING + 2 * logs.WAITING
        assert max(sizes.values()) <= logs.WAITING + 2 * logs.CHUNK_BYTES
        for job, size in sizes.items():
            if size:
                turns.add(job)
                reader.take(sources[job])
    assert turns == sources.keys()


def test_steps_of_a_noisy_job_are_limited_to_the_first_and_the_latest(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = {"progress": {"pattern": r"step (\d+)", "within": 60}}
    managed = make_job(make_main_object("torchrun", policy), make_workers())
    managed.pods[0]["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] = "0"
    loop = Controlled()
    loop.run_round(managed, 30)
    assert loop.record is not None
    lines = [(f"2026-11-23T12:01:{number // 1000:02}.{number % 1000:03}000Z", f"step {number}") for number in range(5_000)]
    server: Any = NoisyApi()
    watcher = Following(server)
    monkeypatch.setattr(watcher._logs, "take", lambda source: logs.NewLines(lines, ""))
    for _ in range(2):
        log = watcher.read_job_log(managed, loop.record)
        assert log is not None
        numbers = [step.number for step in log.steps]
        assert (len(numbers), numbers[0], numbers[-1]) == (MOST_STEPS, 0, 4_999)


def test_stacks_of_few_jobs_are_dumped_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    server: Any = NoisyApi()
    dumping = Stacks(server)
    started: list[str] = []
    monkeypatch.setattr(dumping, "_start_dump", lambda job, attempt: iter(started.append(job.uid) or ()))
    hung = {"attempts": [{"number": 1, "outcome": "Failed", "hang": {"at": make_timestamp(91)}}]}
    for number in range(20):
        main = make_main_object()
        main["metadata"]["uid"] = str(number)
        dumping.dump_hanging_job(make_job(main, []), hung, make_timestamp(92))
    assert len(started) == stacks.DUMPS


def test_message_larger_than_the_output_limit_ends_the_output() -> None:
    class Stream:
        def __init__(self) -> None:
            self.parts = [bytes([0x82, 127]), (1 << 40).to_bytes(8, "big")]

        def read(self, length: int) -> bytes:
            assert length < pod_exec.OUTPUT_BYTES
            return self.parts.pop(0)

    assert list(pod_exec.read_messages(Stream())) == []
