"""Kubeconfigs with a token instead of a credential plugin, so that tests that run many commands get one token for all."""

import json
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import yaml

VALID_SECONDS = 300.0
"""Age at which a token is replaced. Tokens of `aws eks get-token` are valid for 14 minutes, and no command of a test
runs for longer than nine."""


def with_token(kubeconfig: Path, environment: Mapping[str, str]) -> Path:
    """Return a copy of the kubeconfig that holds the token of its credential plugin, or the kubeconfig itself if it has no
    plugin. The plugin takes longer than most commands (docs/measurements.md)."""
    copy = kubeconfig.with_name(f"{kubeconfig.name}.token")
    if copy.exists() and time.time() - copy.stat().st_mtime < VALID_SECONDS:
        return copy
    config = yaml.safe_load(kubeconfig.read_text())
    (entry,) = config["users"]
    plugin = entry["user"].pop("exec", None)
    if plugin is None:
        return kubeconfig
    command = [plugin["command"], *plugin["args"]]
    printed = subprocess.run(command, env=dict(environment), check=True, capture_output=True, text=True, timeout=60).stdout
    entry["user"]["token"] = json.loads(printed)["status"]["token"]
    copy.touch(mode=0o600)
    copy.write_text(yaml.safe_dump(config))
    return copy
