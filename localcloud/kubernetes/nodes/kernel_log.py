"""The kernel log of a local node. All nodes share the machine's kernel, so each node has its own file."""

from datetime import datetime
from pathlib import Path
from typing import Final

from infra.health import xids

FILE: Final = Path("var/log/kern.log")


def create_log(own: Path) -> None:
    (own / FILE).touch()


def append_message(own: Path, node: str, message: str, now: datetime) -> None:
    """Append a message. `own`: folder with the node's /etc and /var."""
    with (own / FILE).open("a") as file:
        file.write(f"{now.isoformat(timespec='microseconds')} {node} kernel: {message}\n")


def format_xid_line(address: str, xid: int) -> str:
    """Return the log line that NVIDIA's driver writes for an Xid. `address`: PCI address of the GPU, as NVML reports
    it.

    >>> format_xid_line("00000000:10:00.0", 79)
    "NVRM: Xid (PCI:0000:10:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus"
    """
    domain, bus, slot = address.split(":")
    where = f"{domain[-4:]}:{bus}:{slot.partition('.')[0]}"
    return f"NVRM: Xid (PCI:{where}): {xid}, pid='<unknown>', name=<unknown>, {xids.look_up_xid(xid).text}"
