"""Source code of the programs that acceptance runs on nodes. All programs need Python 3.8; programs with ranks also
need mpi4py.
"""

from typing import Final

VERSIONS: Final = """
import json, os, platform, re, shutil, subprocess

def text(path):
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ""

def devices():
    try:
        names = os.listdir("/sys/class/infiniband")
    except OSError:
        return 0
    return sum(os.path.basename(os.path.realpath(f"/sys/class/infiniband/{name}/device/driver")) == "efa" for name in names)

tool = shutil.which("nvidia-smi")
shown = subprocess.run([tool], stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout.decode() if tool else ""
cuda = re.search(r"CUDA Version\\s*:\\s*([\\d.]+)", shown)
efa = text("/sys/module/efa/version") or ("of the kernel" if os.path.isdir("/sys/module/efa") else "")
report = {"node": os.environ.get("GPUMPI_NODE") or platform.node(), "kernel": platform.release()}
report.update(nvidia=text("/sys/module/nvidia/version"), cuda=cuda.group(1) if cuda else "", efa=efa, efaDevices=devices())
print("acceptance " + json.dumps(report), flush=True)
"""
"""Program that prints one line with a node's driver versions. It may run in any pod, because /sys shows the node's
kernel modules in every pod.

NOT VERIFIED on a machine with a GPU or EFA: the output format of nvidia-smi is from memory (2026-11-23). EFA's kernel
module has a version file only if the EFA installer installed it.
"""

FIRST, SECOND, ENDED = "acceptance: first attempt runs", "acceptance: second attempt runs", "acceptance: ranks agree"

TWICE: Final = f"""
import os, pathlib, platform, signal, sys
from mpi4py import MPI
world = MPI.COMM_WORLD
mark = pathlib.Path(sys.argv[1])
again = world.allreduce(int(mark.exists()), MPI.MAX)
if not again:
    mark.touch()
where = world.gather(platform.node() + ":" + str(os.getpid()))
if world.rank == 0:
    print("{SECOND}" if again else "{FIRST}", *where, flush=True)
if not again:
    signal.pause()
if world.allreduce(world.rank, MPI.SUM) != world.size * (world.size - 1) // 2:
    sys.exit("the ranks do not agree on a sum")
if world.rank == 0:
    print("{ENDED}", flush=True)
"""
"""Program that waits to be killed in the first attempt and succeeds in the second. It recognizes the second attempt by
a file that the first one created on the surviving nodes.
"""

MARK: Final = "/tmp/gpumpi-acceptance"

RANKS: Final = """
import json, os, platform
from mpi4py import MPI
world = MPI.COMM_WORLD
gpus = len([one for one in os.listdir("/dev") if one.startswith("nvidia") and one[6:].isdigit()])
total = world.allreduce(world.rank + 1, MPI.SUM)
report = {"rank": world.rank, "size": world.size, "host": platform.node(), "sum": total, "gpus": gpus}
reports = world.gather(report)
for one in reports or ():
    print("acceptance " + json.dumps(one), flush=True)
"""
"""Program in which rank 0 prints one line per rank: host, sum over all ranks, GPUs of the host."""
