"""Kubeconfigs with a token instead of a credential plugin, for tests that run many commands."""

import time
from collections.abc import Mapping
from pathlib import Path

import yaml

from localcloud.engine.kubernetes.credentials import Credentials
from localcloud.engine.kubernetes.kubeconfig import Kubeconfig

REUSE_SECONDS = 300.0
"""A token of this age is replaced. Tokens of `aws eks get-token` are valid for 14 minutes, and no command in a test runs
for longer than nine."""


def add_token(kubeconfig: Path, environment: Mapping[str, str]) -> Path:
    """Return a copy of the kubeconfig with a token from its credential plugin. If the kubeconfig has no plugin,
    return the kubeconfig itself. The plugin uses more CPU time than most commands (docs/measurements/tests.md)."""
    copy = kubeconfig.with_name(f"{kubeconfig.name}.token")
    if copy.exists() and time.time() - copy.stat().st_mtime < REUSE_SECONDS:
        return copy
    access = Kubeconfig.load(str(kubeconfig)).read_access()
    if access.exec is None:
        return kubeconfig
    credentials = Credentials(access, environment)
    credentials.discard_token()  # a cached token might expire during the next command
    config = yaml.safe_load(kubeconfig.read_text())
    (entry,) = config["users"]
    entry["user"] = {"token": str(credentials.build_header()).removeprefix("Bearer ")}
    copy.touch(mode=0o600)
    copy.write_text(yaml.safe_dump(config))
    return copy
