"""Stack traces of a hanging job's ranks: they are collected in the pods, grouped, and stored in the job's record."""

import os
import pickle
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import wait
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from cli.errors import NotFound
from cli.jobs import records
from infra.platform.job_controller.in_pod import dump_nccl, pod_exec, stacks
from infra.platform.job_controller.in_pod import record as record_format
from infra.platform.job_controller.in_pod.api import Api, ApiError, Unreachable
from infra.platform.job_controller.in_pod.stacks import Stacks
from tests.pure import recorded_on_gpu
from tests.pure.controlled_jobs import Controlled, make_job, make_main_object, make_timestamp
from tests.pure.test_job_hangs import WITHIN, make_hanging_controller, make_pods, make_seen_steps

# Output of dump_ranks.sh and py-spy 0.4.3.
FIRST = """gpumpi-rank 0 S python3
Process 71: python3 train.py
Python v3.11.2 (/usr/bin/python3.11)

Thread 71 (active): "MainThread"
    allreduce (train.py:9)
    <module> (train.py:12)
Thread 80 (idle): "Thread-1 (loads)"
    wait (threading.py:324)
gpumpi-rank 2 S python3
Process 72: python3 train.py
Python v3.11.2 (/usr/bin/python3.11)

Thread 72 (idle): "MainThread"
    allreduce (train.py:9)
    <module> (train.py:12)
"""
WORKERS = ("train-worker-0", "train-worker-1")
SECOND = """gpumpi-rank 1 T python3
Process 71: python3 -c
import data
    load (token.py:1)

Python v3.11.2 (/usr/bin/python3.11)

Thread 71 (active+gil): "MainThread"
    load (data.py:7)
    <module> (train.py:11)
"""


def test_ranks_with_equal_stacks_form_one_group_and_the_outlier_comes_first() -> None:
    odd, waiting = stacks.parse_dump([FIRST, SECOND]).groups()
    assert (odd["ranks"], odd["at"]) == ([1], "stopped in load (data.py:7)")
    assert odd["lines"] == ['Thread "MainThread"', "    load (data.py:7)", "    <module> (train.py:11)"]
    assert (waiting["ranks"], waiting["at"]) == ([0, 2], "allreduce (train.py:9)")
    assert waiting["lines"][3] == 'Thread "Thread-1 (loads)"'
    assert stacks.describe_locations([odd, waiting]) == "rank 1: stopped in load (data.py:7); ranks 0, 2: allreduce (train.py:9)"


def test_single_threaded_program_has_an_unnamed_thread() -> None:
    (group,) = stacks.parse_dump(["gpumpi-rank 0 R python3\nPython v3.11.2\n\nThread 9 (idle)\n    f (a.py:1)\n"]).groups()
    assert (group["at"], group["lines"]) == ("f (a.py:1)", ["Thread", "    f (a.py:1)"])


@pytest.mark.parametrize("line", ["the image has no py-spy", "Error: Permission Denied"])
def test_rank_without_a_stack_shows_the_reason(line: str) -> None:
    (group,) = stacks.parse_dump([f"gpumpi-rank 0 S train\n{line}\n", f"gpumpi-rank 1 S train\n{line}\n"]).groups()
    assert group == {"ranks": [0, 1], "at": "", "lines": [line]}
    assert stacks.describe_locations([group]) == ""


def test_record_keeps_a_limited_number_of_stack_lines() -> None:
    many = [f"gpumpi-rank {rank} S python3\n    f{rank} (a.py:1)\n" + 99 * f"    {'x' * 999} (a.py:2)\n" for rank in range(99)]
    groups = stacks.parse_dump(many).groups()
    assert len(groups) == stacks.GROUPS
    assert max(len(group["lines"]) for group in groups) == stacks.LINES
    assert max(len(line) for group in groups for line in group["lines"]) == stacks.CHARACTERS


# --- asking pods -------------------------------------------------------------------------------------------------------


class Pods:
    """API server whose pods print a fixed text when a command is run in them."""

    def __init__(self, texts: dict[str, str]) -> None:
        self.texts, self.asked = texts, []  # type: ignore[var-annotated]

    def copy(self) -> "Pods":
        return self

    def close(self) -> None:
        pass

    def open_upgraded_stream(self, path: str, query: Any, protocol: str, seconds: int) -> Any:
        name = path.split("/")[-2]
        self.asked.append((path, [value for key, value in query if key == "command"][:3], len(query)))
        if name not in self.texts:
            raise ApiError(404, "NotFound", name)
        return BytesIO(frame_message(b"\x01" + self.texts[name].encode()) + frame_message(b"\x03{}") + b"\x88\x00")


def frame_message(message: bytes) -> bytes:
    """Return the message in a WebSocket frame: https://www.rfc-editor.org/rfc/rfc6455#section-5.2"""
    length = len(message)
    if length < 126:
        return bytes([0x82, length]) + message
    return bytes([0x82, 126]) + length.to_bytes(2, "big") + message


def wait_for_dump(asking: Stacks, managed: Any, record: Any) -> stacks.Dump:
    asking.dump_hanging_job(managed, record, make_timestamp(92))
    wait(asking._running["uid-train", 1])
    dump = asking.dump_hanging_job(managed, record, make_timestamp(92))
    assert dump is not None
    return dump


def make_hung_job() -> tuple[Controlled, Any]:
    loop = make_hanging_controller()
    managed = make_job(make_main_object(policy=WITHIN), make_pods("mpijob"))
    loop.run_round(managed, 91, seen=make_seen_steps("mpijob", (30, 7), until=91))
    return loop, managed


def test_each_worker_is_queried_once_and_nccl_only_on_the_first() -> None:
    loop, managed = make_hung_job()
    pods = Pods({"train-worker-0": FIRST, "train-worker-1": SECOND})
    asking = Stacks(pods)  # type: ignore[arg-type]
    dump = wait_for_dump(asking, managed, loop.record)
    assert [group["ranks"] for group in dump.groups()] == [[1], [0, 2]]
    assert sorted(path for path, _, _ in pods.asked) == [
        f"api/v1/namespaces/mpi-jobs/pods/train-worker-{index}/exec" for index in (0, 1)
    ]
    assert sorted(words for _, _, words in pods.asked) == [8, 9]
    loop.run_round(managed, 93, dump=dump)
    assert (
        loop.record is not None
        and asking.dump_hanging_job(managed, loop.record, make_timestamp(94)) is None
        and len(pods.asked) == 2
    )


def test_unresponsive_pods_do_not_delay_ending_the_ranks() -> None:
    loop, managed = make_hung_job()
    dump = wait_for_dump(Stacks(Pods({})), managed, loop.record)  # type: ignore[arg-type]
    assert dump.groups() == [] and set(dump.unknown) == {f"{worker}: 404 NotFound: {worker}" for worker in WORKERS}
    _, *deleted = loop.run_round(managed, 93, dump=dump)
    assert len(deleted) == 3


def test_unresponsive_ranks_are_ended_after_24_seconds() -> None:
    loop, managed = make_hung_job()
    assert len(loop.run_round(managed, 114)) == 1
    assert len(loop.run_round(managed, 115)) == 4


def test_unresponsive_pod_is_omitted() -> None:
    loop, managed = make_hung_job()
    silent, asking = threading.Event(), Stacks(Pods({"train-worker-0": FIRST}))  # type: ignore[arg-type]
    ask = asking._run_in_pod
    asking._run_in_pod = lambda place, pod, command: (  # type: ignore[method-assign]
        ask(place, pod, command) if pod.endswith("0") else str(silent.wait(60))
    )
    try:
        assert loop.record is not None and asking.dump_hanging_job(managed, loop.record, make_timestamp(92)) is None
        wait(asking._running["uid-train", 1], return_when="FIRST_COMPLETED")
        dump = asking.dump_hanging_job(managed, loop.record, make_timestamp(91 + stacks.ENOUGH_SECONDS))
    finally:
        silent.set()
    assert dump is not None and [rank.number for rank in dump.ranks] == [0, 2]
    assert dump.unknown == ("1 of 2 pods did not answer in 18 s",)


def test_output_comes_in_messages_of_any_length_until_the_server_closes() -> None:
    long = b"\x02" + b"x" * 300
    ping = b"\x89\x01p"
    split = bytes([0x02, 2]) + b"\x01a" + bytes([0x80, 1]) + b"b"
    whole = (
        split
        + ping
        + frame_message(long)
        + bytes([0x82, 127])
        + (2).to_bytes(8, "big")
        + b"\x01c"
        + b"\x88\x00"
        + frame_message(b"\x01d")
    )
    assert list(pod_exec.read_messages(BytesIO(whole))) == [b"\x01ab", long, b"\x01c"]


def test_broken_connection_keeps_the_output_read_so_far() -> None:
    class Broken:
        def __init__(self, content: bytes) -> None:
            self.content = BytesIO(content)

        def read(self, size: int) -> bytes:
            chunk = self.content.read(size)
            if not chunk:
                raise TimeoutError("timed out")
            return chunk

    api: Any = Pods({})
    api.open_upgraded_stream = lambda *_: Broken(frame_message(b"\x01half"))
    assert pod_exec.run_in_pod(api, "n", "p", "c", ["true"], 5) == "half"
    api.open_upgraded_stream = lambda *_: Broken(b"")
    with pytest.raises(Unreachable):
        pod_exec.run_in_pod(api, "n", "p", "c", ["true"], 5)


# --- NCCL and PyTorch --------------------------------------------------------------------------------------------------


def test_rank_that_hangs_in_a_library_is_reported_with_its_own_program_line() -> None:
    dump = stacks.parse_dump([recorded_on_gpu.HANG])
    groups = dump.groups()
    assert stacks.describe_locations(groups) == "rank 0: step (hang.py:7); rank 1: <module> (hang.py:13)"
    assert groups[0]["lines"][1:3] == ["    synchronize (torch/cuda/__init__.py:1162)", "    step (hang.py:7)"]
    assert groups[0]["lines"][-1] == "flight recorder: scheduled: nccl:all_reduce 6, from step (hang.py:6)"
    assert "Rank 1 has launched up to operation 5" in dump.nccl[-1]


def test_rank_without_own_frames_is_reported_with_the_library_call() -> None:
    text = 'gpumpi-rank 0 S python3\nThread 1 (idle): "MainThread"\n    wait (threading.py:320)\n    get (queue.py:171)\n'
    assert stacks.describe_locations(stacks.parse_dump([text]).groups()) == "rank 0: wait (threading.py:320)"


@pytest.fixture
def ras_server() -> Iterator[str]:
    """Server that responds like NCCL's RAS: it sends the report and closes the connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve_report() -> None:
            connection, _ = server.accept()
            with connection:
                assert connection.recv(100) == b"verbose status\n"
                connection.sendall(recorded_on_gpu.RAS.encode())

        thread = threading.Thread(target=serve_report, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join(10)


def test_nccl_ras_report_is_kept_separate_from_the_stacks(ras_server: str) -> None:
    dump = stacks.parse_dump([FIRST + dump_nccl.query_ras(ras_server), SECOND])
    assert "Rank 0 has launched up to operation 6" in dump.nccl[-2]
    assert [len(rank.lines) for rank in dump.ranks] == [5, 3, 3]


def test_without_nccl_ras_no_report_is_printed(ras_server: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert dump_nccl.query_ras(f"127.0.0.1:{port}") == ""
    dump_nccl.query_ras(ras_server)


def make_recorder_entry(number: int, state: str, name: str = "nccl:all_reduce") -> dict[str, Any]:
    """Return a flight recorder entry with the keys that PyTorch 2.11 writes."""
    library = "/opt/venv/lib/python3.12/site-packages/torch/distributed/distributed_c10d.py"
    frames = [
        {"name": "all_reduce", "filename": library, "line": 3068},
        {"name": "backward", "filename": "/code/train.py", "line": 40 + number},
    ]
    return {"frames": frames, "record_id": number, "collective_seq_id": number, "profiling_name": name, "state": state}


def test_flight_recorder_summary_shows_unfinished_collectives() -> None:
    entries = [
        make_recorder_entry(1, "completed"),
        make_recorder_entry(2, "completed"),
        make_recorder_entry(3, "started"),
        make_recorder_entry(4, "scheduled", "nccl:all_gather"),
    ]
    assert dump_nccl.summarize_collectives({"version": "2.5", "entries": entries}).splitlines() == [
        "flight recorder: completed: nccl:all_reduce 2, from backward (train.py:42)",
        "flight recorder: started: nccl:all_reduce 3, from backward (train.py:43)",
        "flight recorder: scheduled: nccl:all_gather 4, from backward (train.py:44)",
    ]
    assert dump_nccl.summarize_collectives({"entries": []}) == "flight recorder: no collective yet"


def test_pytorch_dumps_its_flight_recorder_on_a_write_to_its_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe-3.pipe")

    def dump_recorder() -> None:
        with (tmp_path / "pipe-3.pipe").open("rb") as pipe:
            opened.set()
            assert pipe.read(1)
            (tmp_path / "trace-3").write_bytes(pickle.dumps({"entries": [make_recorder_entry(7, "started")]}))

    opened = threading.Event()
    thread = threading.Thread(target=dump_recorder, daemon=True)
    writer = os.open(tmp_path / "pipe-3.pipe", os.O_RDWR)  # like PyTorch, which opens the pipe without blocking
    thread.start()
    try:
        assert opened.wait(10)
        summary = dump_nccl.query_flight_recorder(str(tmp_path / "pipe-"), str(tmp_path / "trace-"), "3", "60")
    finally:
        os.close(writer)
    thread.join(10)
    assert summary == "flight recorder: started: nccl:all_reduce 7, from backward (train.py:47)"
    assert "flight recorder: [Errno" in dump_nccl.query_flight_recorder(
        str(tmp_path / "none-"), str(tmp_path / "trace-"), "3", "60"
    )


# --- `logs --hang` -----------------------------------------------------------------------------------------------------


class Records:
    """Cluster with one job's record."""

    def __init__(self, record: Any) -> None:
        self.record = record

    def list_labeled(self, *_: Any) -> list[dict[str, Any]]:
        config_map = record_format.build_config_map(self.record)
        return [{**config_map, "metadata": {**config_map["metadata"], "name": "train-record"}}]


def test_logs_command_shows_each_rank_group_below_the_last_log_lines() -> None:
    loop, managed = make_hung_job()
    loop.run_round(managed, 93, dump=stacks.parse_dump([FIRST, SECOND, f"{stacks.NCCL}\n{recorded_on_gpu.RAS}"]))
    shown = "\n".join(records.format_hang_report(records.find_last_hang(Records(loop.record), "mpi-jobs", "train")))  # type: ignore[arg-type]
    head, log, odd, waiting, nccl = shown.split("\n\n")
    assert head == f"attempt 1, {make_timestamp(91)}: hang: no new step for 61 s after step 7"
    assert log == "last lines of the log:\n    none"
    assert odd.startswith('rank 1: stopped in load (data.py:7)\n    Thread "MainThread"\n        load (data.py:7)')
    assert waiting.startswith("ranks 0, 2: allreduce (train.py:9)\n")
    assert nccl.startswith("NCCL:\n    NCCL version 2.28.9")


def test_logs_command_says_if_no_pod_answered_and_if_nothing_hung() -> None:
    loop, _ = make_hung_job()
    shown = list(records.format_hang_report(records.find_last_hang(Records(loop.record), "mpi-jobs", "train")))  # type: ignore[arg-type]
    assert shown[-1] == "the ranks' stacks are unknown: no pod answered in time"
    fine = make_hanging_controller()
    with pytest.raises(NotFound, match="no attempt of train ended because of a hang"):
        records.find_last_hang(Records(fine.record), "mpi-jobs", "train")  # type: ignore[arg-type]
    with pytest.raises(NotFound, match="no record of job other in namespace mpi-jobs"):
        records.find_last_hang(Records(fine.record), "mpi-jobs", "other")  # type: ignore[arg-type]


def test_command_runs_over_an_upgraded_websocket_connection() -> None:
    asked: list[bytes] = []

    def serve_upgrade() -> None:
        connection, _ = server.accept()
        with connection:
            while not asked or not asked[-1].endswith(b"\r\n\r\n"):
                asked.append((asked[-1] if asked else b"") + connection.recv(65536))
            head = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
            connection.sendall(head + frame_message(b"\x01") + frame_message(b"\x01" + FIRST.encode()) + b"\x88\x02\x03\xe8")

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve_upgrade, daemon=True)
        thread.start()
        api = Api("127.0.0.1", server.getsockname()[1], None, None)
        assert pod_exec.run_in_pod(api, "mpi-jobs", "train-worker-0", "worker", ["sh", "-c", "a\nb & c"], 10) == FIRST
        thread.join(10)
    line, *headers = asked[-1].decode().split("\r\n")
    assert line == (
        "GET /api/v1/namespaces/mpi-jobs/pods/train-worker-0/exec?container=worker&stdout=true&stderr=true"
        "&command=sh&command=-c&command=a%0Ab+%26+c HTTP/1.1"
    )
    assert {"Accept: */*", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Protocol: v4.channel.k8s.io"} <= set(
        headers
    )
