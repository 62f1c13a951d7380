"""Distribution packages (apt locks, Amazon Linux's minimal packages, drivers) and resource limits of services."""

from pathlib import Path

import pytest

from localcloud.hosts import roots
from tests.amis.machine import Machine
from tests.images.conftest import needs_roots

pytestmark = [pytest.mark.xdist_group("packer"), needs_roots]

LOCKED = "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 900 (apt-get)"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    layer = tmp_path / "layer"
    layer.mkdir()
    return Machine(layer, [roots.ensure_bare_root(print)])


def stub_program(machine: Machine, name: str, text: str) -> None:
    """Add a shell script that precedes the real program on the machine's PATH."""
    path = machine.layer / "usr/local/bin" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_package_installation_waits_until_boot_has_updated_the_package_lists(machine: Machine) -> None:
    update = f"if ! mkdir /srv/second; then exit 0; fi; echo '{LOCKED}' >&2; exit 100"
    stub_program(machine, "apt-get", f'case "$1" in update) {update} ;; esac\necho "$@" >/srv/asked')
    machine.run_checked("install-packages.sh", "no-such-package")
    asked = machine.run_checked("cat", "/srv/asked")
    assert "no-such-package" in asked and "DPkg::Lock::Timeout=" in asked


def test_other_apt_errors_end_the_build_at_once(machine: Machine) -> None:
    stub_program(machine, "apt-get", "mkdir /srv/first || exit 7; echo 'E: The repository is not signed.' >&2; exit 100")
    failed = machine.run("install-packages.sh", "no-such-package")
    assert failed.returncode == 1
    assert "E: The repository is not signed." in failed.stderr


@pytest.mark.parametrize("name", ["curl", "gpg"])
def test_amazon_linux_keeps_preinstalled_and_minimal_packages(machine: Machine, name: str) -> None:
    """dnf does not install both the minimal and the full package of a program."""
    stub_program(machine, "rpm", "exit 1")
    stub_program(machine, "dnf", 'for asked; do :; done; echo "$asked" >/srv/asked')
    machine.run_checked("rm", "--force", f"/usr/bin/{name}")
    machine.run_checked("install-packages.sh", name)
    assert machine.run_checked("cat", "/srv/asked") == {"curl": "curl-minimal\n", "gpg": "gnupg2-minimal\n"}[name]
    machine.run_checked("rm", "/srv/asked")
    stub_program(machine, name, "")
    machine.run_checked("install-packages.sh", name)
    assert machine.run("test", "-e", "/srv/asked").returncode == 1


def test_locked_memory_limit_applies_to_services_started_afterwards(machine: Machine) -> None:
    stub_program(machine, "systemctl", 'echo "$@" >>/srv/asked')
    machine.run_checked("mkdir", "--parents", "/run/systemd/system")
    for _ in range(2):
        machine.run_checked("configure-limits.sh")
    assert machine.run_checked("cat", "/srv/asked") == "daemon-reload\n", "the second run changes nothing"
    assert "DefaultLimitMEMLOCK=infinity" in machine.run_checked("cat", "/etc/systemd/system.conf.d/50-gpumpi.conf")
