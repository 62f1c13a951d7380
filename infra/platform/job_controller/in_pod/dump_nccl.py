"""Program that runs in the pods of a hanging job and prints the reports of NCCL and PyTorch's flight recorder. Needs
only Python 3.8.

Arguments: `ras ADDRESS`, with the value of NCCL_RAS_ADDR, or `recorder PIPE FILE RANK SECONDS`, with the values of
TORCH_NCCL_DEBUG_INFO_PIPE_FILE and TORCH_NCCL_DEBUG_INFO_TEMP_FILE, and the time limit for PyTorch.

Tested on an H100 with NCCL 2.28.9 and PyTorch 2.11 on 2026-11-26 (`bench/gpu/one_gpu.py --only hang`). Sources:
- https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting/ras.html
- https://docs.pytorch.org/tutorials/prototype/flight_recorder_tutorial.html
- `DumpPipe` in https://github.com/pytorch/pytorch/blob/main/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp
"""

import os
import pickle
import socket
import sys
import time
from pathlib import Path
from typing import Any

RAS_SECONDS = 8
LATEST = 3


def query_ras(address: str) -> str:
    """Return NCCL's view of all ranks of the job; empty if no rank of this pod uses an NCCL with RAS (since 2.24)."""
    answer = b""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), RAS_SECONDS) as connection:
            connection.sendall(b"verbose status\n")
            while more := connection.recv(65536):
                answer += more
    except ConnectionRefusedError:
        return ""
    except OSError as error:
        answer += f"NCCL's RAS did not answer: {error}\n".encode()
    return f"gpumpi-nccl\n{answer.decode(errors='replace')}"


def query_flight_recorder(pipe: str, file: str, rank: str, seconds: str) -> str:
    """Make PyTorch write its last collectives to a file, and return this rank's collectives that matter for a hang.

    On an H100 with PyTorch 2.11, this takes 4 to 7 seconds, because PyTorch first imports its compiler (2026-11-26).
    """
    path, since = Path(file + rank), time.time() - 1
    try:
        trigger = os.open(f"{pipe}{rank}.pipe", os.O_WRONLY | os.O_NONBLOCK)
        os.write(trigger, b"1\n")
        os.close(trigger)
    except OSError as error:
        return f"flight recorder: {error}"
    end = time.monotonic() + float(seconds)
    while time.monotonic() < end:
        try:
            if path.stat().st_mtime >= since:
                return summarize_collectives(pickle.loads(path.read_bytes()))
        except (OSError, EOFError, pickle.UnpicklingError):
            pass  # not written yet
        time.sleep(0.2)
    return f"flight recorder: PyTorch wrote no {path} within {seconds} s"


def summarize_collectives(dump: "dict[str, Any]") -> str:
    """Return the last completed collective and the oldest incomplete ones."""
    entries = dump.get("entries") or []
    done = [entry for entry in entries if entry["state"] == "completed"]
    left = [entry for entry in entries if entry["state"] != "completed"]
    lines = [f"flight recorder: {_format_entry(entry)}" for entry in [*done[-1:], *left[:LATEST]]]
    if len(left) > LATEST:
        lines.append(f"flight recorder: {len(left) - LATEST} more are not completed")
    return "\n".join(lines) or "flight recorder: no collective yet"


def _format_entry(entry: "dict[str, Any]") -> str:
    number = entry.get("collective_seq_id", entry.get("seq_id", "?"))
    frames: list[dict[str, Any]] = entry.get("frames") or [{}]
    # PyTorch's own stack frames come first: all_reduce in torch/distributed/distributed_c10d.py
    frame = next((frame for frame in frames if "/torch/" not in frame.get("filename", "")), frames[0])
    place = f", from {frame['name']} ({Path(frame['filename']).name}:{frame['line']})" if frame else ""
    return f"{entry['state']}: {entry['profiling_name']} {number}{place}"


if __name__ == "__main__":
    print(query_ras(sys.argv[2]) if sys.argv[1] == "ras" else query_flight_recorder(*sys.argv[2:]))
