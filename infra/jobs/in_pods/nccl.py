"""Run nccl-tests' all_reduce_perf in each rank of the smoke job's NCCL level, and report what NCCL logged.

The rank itself does not start MPI: all_reduce_perf inherits its environment and starts MPI instead. Every rank prints
one JSON line, short enough (below 4096 bytes) for mpirun to forward it whole. Needs only Python 3.8.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections import Counter

PROGRAM = "all_reduce_perf"
FOLDERS = ("/usr/local/bin", "/opt/nccl-tests/build", "/opt/nccl-tests")
"""Folders to search if the program is not in PATH: SSH sessions may not get the image's PATH."""
SECONDS = 900
"""Time limit of the program. NCCL waits forever for messages that a security group drops."""

# Log lines of NCCL (src/transport/net.cc, src/plugin/net.cc at v2.30.7-1) and aws-ofi-nccl (2daf7d3).
NETWORK = re.compile(r"Using network (.+?)\s*$", re.MULTILINE)
PROVIDER = re.compile(r"NET/OFI Selected [Pp]rovider is ([\w;-]+)")
PATH = re.compile(r"via NET/([^/\n]+)/\d+(\S*)")
WARNING = re.compile(r"NCCL WARN (.+?)\s*$", re.MULTILINE)
VERSION = re.compile(r"NCCL version (\S+)")
FAILURE = re.compile(r"Test (NCCL|CUDA) failure ")
"""Line of nccl-tests; the lines after it show only where the program ended (src/common.h at v2.19.6)."""
ROW = re.compile(
    r"^ *(?P<size>\d+) +\d+ +\w+ +\w+ +-?\d+"
    r" +[\d.]+ +[\d.]+ +(?P<bus>[\d.]+) +(?P<wrong>\S+) +[\d.]+ +[\d.]+ +(?P<bus_in_place>[\d.]+) +(?P<wrong_in_place>\S+)",
    re.MULTILINE,
)
"""Line of nccl-tests' table: each message size out of place, then in place."""


def parse_output(output: str) -> "dict[str, object]":
    """Return the values found in the output of one rank."""
    paths = Counter(name + (" with GPUDirect" if "/GDRDMA" in rest else "") for name, rest in PATH.findall(output))
    version = VERSION.search(output)
    return {
        "version": version[1] if version else "",
        "networks": sorted(set(NETWORK.findall(output))),
        "providers": sorted(set(PROVIDER.findall(output))),
        "paths": dict(sorted(paths.items())),
        "warnings": [text[:200] for text in dict.fromkeys(WARNING.findall(output))][:3],
        "results": [
            [
                int(row["size"]),
                max(float(row["bus"]), float(row["bus_in_place"])),
                any(row[key] not in ("0", "N/A") for key in ("wrong", "wrong_in_place")),
            ]
            for row in ROW.finditer(output)
        ],
    }


def find_program(folders: "tuple[str, ...]" = FOLDERS) -> "str | None":
    return shutil.which(PROGRAM, path=os.pathsep.join([os.environ.get("PATH", ""), *folders]))


def run_nccl_test(program: str, largest: str) -> "tuple[str, str]":
    """Return the output of the program and of NCCL and, if the program failed, the reason."""
    command = [program, "-b", "8", "-e", largest, "-f", "2", "-g", "1"]
    error = ""
    with tempfile.NamedTemporaryFile() as file:
        # NCCL logs to a file, because otherwise its output would break up lines of the table, which nccl-tests prints in parts.
        env = {**os.environ, "NCCL_DEBUG_FILE": file.name}
        try:
            # close_fds: MPICH and Intel MPI connect ranks to their launcher through an open file (PMI_FD).
            done = subprocess.run(
                command,
                env=env,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=SECONDS,
                check=False,
                close_fds=False,
            )
            output = done.stdout.decode(errors="replace")
            if done.returncode:
                error = f"{PROGRAM} ended with {done.returncode}: {find_error_line(output)}"
        except subprocess.TimeoutExpired as late:
            output, error = (late.stdout or b"").decode(errors="replace"), f"{PROGRAM} did not end within {SECONDS} s"
        logged = file.read().decode(errors="replace")
    return f"{output}\n{logged}", error


def find_error_line(output: str) -> str:
    """Return the line with NCCL's or CUDA's error, or the last line if no line contains an error."""
    lines = output.strip().splitlines() or [""]
    return next((line for line in lines if FAILURE.search(line)), lines[-1]).strip()[:300]


def read_rank() -> int:
    """Return the rank from the environment of Open MPI, Intel MPI or MPICH."""
    names = ("OMPI_COMM_WORLD_RANK", "PMI_RANK")
    return next((int(os.environ[name]) for name in names if name in os.environ), -1)


def main(largest: str) -> int:
    program = find_program()
    output, error = run_nccl_test(program, largest) if program else ("", f"{PROGRAM} is missing")
    node = os.environ.get("GPUMPI_NODE", "")
    report = {"nccl_rank": read_rank(), "host": socket.gethostname(), "node": node, "error": error, **parse_output(output)}
    print(json.dumps(report), flush=True)
    return 1 if error else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
