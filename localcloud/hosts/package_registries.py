"""Package registries that this machine is configured to use."""

import re
import shutil
import subprocess
import sys
from functools import cache
from urllib.parse import urlsplit


def find_debian_mirror() -> str:
    """Return the Debian mirror that apt uses on this machine, or Debian's own mirror if there is none."""
    default = "https://deb.debian.org/debian"
    if shutil.which("apt-get") is None:
        return default
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return next((line.rstrip("/") for line in done.stdout.splitlines() if line.rstrip("/").endswith("/debian")), default)


def find_pip_index() -> str:
    """Return the URL of the pip index that is configured on this machine; empty if none is."""
    done = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False)
    setting = re.search(r"^(?:global|:env:)\.index-url='(.*)'$", done.stdout, re.MULTILINE)
    return setting[1] if setting else ""


@cache
def list_registry_hosts() -> frozenset[str]:
    """Return the host names of these registries, which may be in a private network."""
    names = (urlsplit(url).hostname for url in (find_debian_mirror(), find_pip_index()))
    return frozenset(name for name in names if name)
