"""Raises the machine's limit on inotify instances. A node's daemons use eight instances, and a control plane uses
fourteen.

https://man7.org/linux/man-pages/man7/inotify.7.html
"""

import logging
from pathlib import Path

log = logging.getLogger(__name__)

LIMIT = Path("/proc/sys/fs/inotify/max_user_instances")
NEEDED = 1024
"""Required limit. Three clusters exhaust Linux's default of 128 per user; kubelets then exit without a clear error."""


def raise_inotify_limit(limit: Path = LIMIT) -> None:
    """Raise the machine's limit if it is too low. The limit is never lowered again, because other programs may depend
    on the higher limit."""
    present = int(limit.read_text())
    if present >= NEEDED:
        return
    limit.write_text(f"{NEEDED}\n")
    log.info("raised %s to %d for kubelets (was %d)", limit, NEEDED, present)
