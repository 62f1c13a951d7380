"""The root file systems of hosts: the AMI's provisioners, run on a minimal Debian."""

from pathlib import Path

import pytest

from localcloud.hosts import roots
from localcloud.images import build, root

NOISE = ("var/cache", "var/log", "etc/passwd-", "etc/shadow-", "etc/group-", "etc/gshadow-", "etc/.pwd.lock", "etc/ld.so.cache")
"""Paths of backups, caches, logs and locks."""


@pytest.mark.xdist_group("hosts")
def test_running_the_node_provisioners_again_changes_nothing(skip_if_unsupported: None, tmp_path: Path) -> None:
    node, bare = roots.ensure_node_layer(print), roots.ensure_bare_root(print)
    layer = tmp_path / "layer"
    layer.mkdir()
    for script in roots.NODE_SCRIPTS:
        command = [f"/tmp/amis/provisioners/{script}"]
        settings = {**root.WHEELS_ONLY, **roots.NODE_SETTINGS}
        done = roots.run_in_overlay(layer, [node, bare], command, settings, build.download_wheels())
        assert done.returncode == 0, f"{script}: {done.stderr}"
    written = {str(path.relative_to(layer)): path for path in layer.rglob("*") if path.is_file() and not path.is_symlink()}
    changed = {
        name
        for name, path in written.items()
        if not name.startswith(NOISE)
        and path.read_bytes() not in [(below / name).read_bytes() for below in _find_layer(name, node, bare)]
    }
    assert changed == set()


def test_root_file_systems_contain_no_host_key_and_no_machine_id(skip_if_unsupported: None) -> None:
    for below in (roots.ensure_node_layer(print), roots.ensure_bare_root(print)):
        assert not list(below.glob("etc/ssh/ssh_host_*"))
    assert (roots.ensure_bare_root(print) / "etc/machine-id").read_text() == ""


def _find_layer(name: str, *layers: Path) -> list[Path]:
    """Return a list with the first layer that contains the file, or an empty list if no layer contains it."""
    return [layer for layer in layers if (layer / name).is_file()][:1]
