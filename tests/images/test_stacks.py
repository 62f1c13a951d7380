"""Stack dumps by the job controller's script and py-spy, for a real job with a hanging rank in an unprivileged pod."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.platform.job_controller.in_pod import stacks
from localcloud.images.catalogue import OPENMPI_5
from tests.images.conftest import needs_roots, unpack_image
from tests.images.test_ranks import Running

pytestmark = [needs_roots, pytest.mark.xdist_group("job-images")]

PROGRAM = """
import pathlib, time
from mpi4py import MPI
world = MPI.COMM_WORLD

def load():
    while True:
        time.sleep(0.1)

def step():
    world.allreduce(1)

world.barrier()
pathlib.Path(f"/tmp/environment-{world.rank}").touch()
load() if world.rank == 2 else step()
"""

RECORDER = """
import os, pathlib, pickle
from mpi4py import MPI
rank = MPI.COMM_WORLD.rank
pipe = pathlib.Path(f"{os.environ['TORCH_NCCL_DEBUG_INFO_PIPE_FILE']}{rank}.pipe")
os.mkfifo(pipe)
held = os.open(pipe, os.O_RDWR)
pathlib.Path(f"/tmp/environment-{rank}").touch()
assert os.read(held, 1)
entry = {"state": "started", "profiling_name": "nccl:all_reduce", "collective_seq_id": rank}
pathlib.Path(f"{os.environ['TORCH_FR_DUMP_TEMP_FILE']}{rank}").write_bytes(pickle.dumps({"entries": [entry]}))
os.read(held, 1000)
os.read(held, 1)
"""
"""Represents PyTorch, which dumps its flight recorder when something is written to its pipe."""


@pytest.fixture(scope="module")
def root_folder() -> Iterator[Path]:
    with unpack_image(OPENMPI_5) as folder:
        yield folder


@pytest.fixture
def running_ranks(root_folder: Path) -> Iterator[Running]:
    started = Running(OPENMPI_5, root_folder, ["python3", "-c", PROGRAM])
    try:
        started.wait_for_files("environment", 4)
        yield started
    finally:
        started.stop()


def dump_stacks(running: Running) -> stacks.Dump:
    """Run the controller's script in each worker, and parse its output."""
    command = ["sh", "-c", stacks.SCRIPT, "dump", stacks.PROGRAM]
    outputs = [pod.run(*command, *(["job"] if index == 0 else [])) for index, pod in enumerate(running.workers)]
    assert [output.returncode for output in outputs] == [0, 0], outputs
    return stacks.parse_dump([output.stdout for output in outputs])


def test_stack_dump_shows_which_rank_the_others_wait_for_and_its_source_line(running_ranks: Running) -> None:
    odd, waiting = dump_stacks(running_ranks).groups()
    assert (odd["ranks"], odd["at"]) == ([2], "load (<string>:8)")
    assert (waiting["ranks"], waiting["at"]) == ([0, 1, 3], "step (<string>:11)")
    assert odd["lines"] == ["Thread", "    load (<string>:8)", "    <module> (<string>:15)"]


def test_the_stack_of_a_stopped_rank_can_be_dumped_and_the_rank_stays_stopped(running_ranks: Running) -> None:
    stop = "kill -STOP $(pgrep -f '^python3 -c' | tail -n 1)"
    assert running_ranks.workers[1].run("sh", "-c", stop).returncode == 0
    for _ in range(2):
        (ranks,) = [group["ranks"] for group in dump_stacks(running_ranks).groups() if group["at"].startswith("stopped in ")]
        assert len(ranks) == 1 and ranks[0] in (2, 3)


def test_stack_dump_reports_an_image_without_py_spy(root_folder: Path, running_ranks: Running) -> None:
    program = root_folder / "usr/local/bin/py-spy"
    hidden = program.rename(program.with_name("hidden"))
    try:
        (stack_group,) = dump_stacks(running_ranks).groups()
    finally:
        hidden.rename(program)
    assert (stack_group["ranks"], stack_group["at"], stack_group["lines"]) == ([0, 1, 2, 3], "", ["the image has no py-spy"])


def test_stack_dump_reads_the_flight_recorder_of_every_rank(root_folder: Path) -> None:
    files = ["TORCH_NCCL_DEBUG_INFO_PIPE_FILE=/tmp/pipe-", "TORCH_FR_DUMP_TEMP_FILE=/tmp/trace-"]
    started = Running(OPENMPI_5, root_folder, ["env", *files, "python3", "-c", RECORDER])
    try:
        started.wait_for_files("environment", 4)
        lines = [line for rank in dump_stacks(started).ranks for line in rank.lines if line.startswith("flight recorder")]
    finally:
        started.stop()
    assert sorted(lines) == [f"flight recorder: started: nccl:all_reduce {rank}" for rank in range(4)]
