"""Makes a node report the memory of its instance type, with bind mounts over the kernel files that the kubelet reads.

The kubelet (through cAdvisor) reads memory from /proc/meminfo and topology from /sys/devices/system/node. CPUs are not
faked: the kubelet passes their list to the kernel, which rejects CPUs that do not exist.
"""

from dataclasses import dataclass
from pathlib import Path

from localcloud.kubernetes.nodes.machine import HUGE_PAGE_KIB, Machine

HUGE_PAGES = f"hugepages-{HUGE_PAGE_KIB}kB"


@dataclass(frozen=True)
class Bind:
    """A bind mount: a file or folder mounted over a file or folder of /proc or /sys on the node."""

    source: Path
    target: Path


def write_fake_files(machine: Machine, cpus: str, folder: Path) -> tuple[Bind, ...]:
    """Write the fake files and return their bind mounts. `cpus` is the list of CPUs, such as `0-1`."""
    folder.mkdir(parents=True)
    meminfo, numa, pages = folder / "meminfo", folder / "node", folder / "hugepages"
    meminfo.write_text(format_meminfo(machine))
    _write_huge_pages(pages, machine.user_data.huge_pages)
    _write_numa_node(numa, machine, cpus)
    return (
        Bind(meminfo, Path("/proc/meminfo")),
        Bind(numa, Path("/sys/devices/system/node")),
        Bind(pages, Path("/sys/kernel/mm/hugepages")),
    )


def format_meminfo(machine: Machine) -> str:
    """Return the text of /proc/meminfo. As on Linux, reserved huge pages do not count as free."""
    free = machine.memory_kib - machine.huge_page_kib
    amounts = {"MemTotal": machine.memory_kib, "MemFree": free, "MemAvailable": free, "SwapTotal": 0, "SwapFree": 0}
    lines = [f"{name + ':':<16}{amount:>8} kB\n" for name, amount in amounts.items()]
    for name in ("HugePages_Total", "HugePages_Free"):
        lines.append(f"{name + ':':<16}{machine.user_data.huge_pages:>8}\n")
    lines.append(f"{'Hugepagesize:':<16}{HUGE_PAGE_KIB:>8} kB\n")
    return "".join(lines)


def _write_numa_node(folder: Path, machine: Machine, cpus: str) -> None:
    """Write a single NUMA node with all CPUs and memory. Splitting fake memory into several nodes would gain nothing."""
    node = folder / "node0"
    node.mkdir(parents=True)
    for name in ("online", "possible", "has_cpu", "has_memory"):
        (folder / name).write_text("0\n")
    (node / "cpulist").write_text(f"{cpus}\n")
    (node / "distance").write_text("10\n")
    (node / "meminfo").write_text(f"Node 0 MemTotal:       {machine.memory_kib} kB\n")
    for cpu in parse_cpu_list(cpus):
        (node / f"cpu{cpu}").symlink_to(f"/sys/devices/system/cpu/cpu{cpu}")
    _write_huge_pages(node / "hugepages", machine.user_data.huge_pages)


def _write_huge_pages(folder: Path, pages: int) -> None:
    size = folder / HUGE_PAGES
    size.mkdir(parents=True)
    for name in ("nr_hugepages", "free_hugepages"):
        (size / name).write_text(f"{pages}\n")
    (size / "surplus_hugepages").write_text("0\n")


def parse_cpu_list(text: str) -> list[int]:
    """
    >>> parse_cpu_list("0-2,5")
    [0, 1, 2, 5]
    """
    numbers: list[int] = []
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        numbers += range(int(first), int(last or first) + 1)
    return numbers
