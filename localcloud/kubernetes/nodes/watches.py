"""How many things of the machine may be watched at once: each node's daemons take eight, a control plane fourteen.

https://man7.org/linux/man-pages/man7/inotify.7.html
"""

import logging
from pathlib import Path

log = logging.getLogger(__name__)

LIMIT = Path("/proc/sys/fs/inotify/max_user_instances")
NEEDED = 1024
"""Linux's own default is 128 for all of a user's programs; three clusters fill it, and kubelets then end without a clear word."""


def allow(limit: Path = LIMIT) -> None:
    """Raise the machine's limit where it is low; it stays raised, since others may count on it by then."""
    present = int(limit.read_text())
    if present >= NEEDED:
        return
    limit.write_text(f"{NEEDED}\n")
    log.info("%s is %d now, for kubelets; it was %d", limit, NEEDED, present)
