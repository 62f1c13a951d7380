"""Check that ranks can reach each other. `mpiexec -n 8 -N 2 python3 allreduce.py` reduces 1 MiB and prints the ranks per host.

The exit code is nonzero if the result is wrong on any rank.
"""

import socket
import sys
from collections import Counter

from mpi4py import MPI

BYTES = 1 << 20


def main() -> int:
    world = MPI.COMM_WORLD
    own, total = bytearray([world.rank % 5] * BYTES), bytearray(BYTES)
    world.Allreduce([own, MPI.BYTE], [total, MPI.BYTE], op=MPI.BOR)
    expected = 0
    for rank in range(world.size):
        expected |= rank % 5
    right = world.allreduce(total == bytearray([expected] * BYTES), op=MPI.LAND)
    ranks = world.allreduce(world.rank + 1)
    right = right and ranks == world.size * (world.size + 1) // 2
    hosts = Counter(world.allgather(socket.gethostname()))
    if world.rank == 0:
        where = ", ".join(f"{count} on {host}" for host, count in sorted(hosts.items()))
        print(f"allreduce of {world.size} ranks is {'right' if right else 'WRONG'}: {where}", flush=True)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
