"""The inotify limit of this machine: each node's daemons use eight instances, a control plane fourteen.

https://man7.org/linux/man-pages/man7/inotify.7.html
"""

import logging
from pathlib import Path

log = logging.getLogger(__name__)

LIMIT = Path("/proc/sys/fs/inotify/max_user_instances")
NEEDED = 1024
"""Linux's default is 128 per user. Three clusters exhaust it, and kubelets then exit without a clear error."""


def allow(limit: Path = LIMIT) -> None:
    """Raise the machine's limit if it is low. It stays raised, since other programs may depend on it by then."""
    present = int(limit.read_text())
    if present >= NEEDED:
        return
    limit.write_text(f"{NEEDED}\n")
    log.info("raised %s to %d for kubelets (was %d)", limit, NEEDED, present)
