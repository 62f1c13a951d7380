"""Provisioners that local builds skip: clients for FSx for Lustre and EFS, NVIDIA's driver and container runtime. Stubs
replace the package managers and the downloads.
"""

from pathlib import Path

import pytest

from localcloud.hosts import roots
from localcloud.images.recipes import read_pinned_versions
from tests.amis.machine import Machine
from tests.amis.test_packages import stub_program
from tests.images.conftest import needs_roots

pytestmark = [pytest.mark.xdist_group("packer"), needs_roots]

HERE = "/srv/amis/provisioners"
KERNEL = "6.8.0-1021-aws"
REPLACED = ("install-packages", "fetch-file", "add-apt-repository", "add-nvidia-repository")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine whose provisioners record the packages, files and repositories that they would fetch."""
    layer = tmp_path / "layer"
    layer.mkdir()
    prepared = Machine(layer, [roots.ensure_bare_root(print)])
    prepared.run_checked("cp", "--recursive", "/tmp/amis", "/srv/amis")
    for name in REPLACED:
        path = layer / HERE[1:] / f"{name}.sh"
        path.write_text(f'#!/bin/sh\necho {name} "$@" >>/srv/asked\n')
        path.chmod(0o755)
    stub_program(prepared, "uname", f'[ "$1" = --kernel-release ] && echo {KERNEL} || exec /usr/bin/uname "$@"')
    return prepared


def read_requests(machine: Machine) -> str:
    return machine.run("cat", "/srv/asked").stdout


def file_exists(machine: Machine, path: str) -> bool:
    return machine.run("test", "-e", path).returncode == 0


def test_the_lustre_client_matches_the_kernel(machine: Machine) -> None:
    machine.run_checked("mkdir", "--parents", "/etc/gpumpi")
    machine.run_checked("touch", "/etc/gpumpi/no-lustre-client")
    machine.run_checked("/bin/bash", f"{HERE}/install-lustre-client.sh")
    assert read_requests(machine).splitlines()[-1] == f"install-packages lustre-client-modules-{KERNEL}"
    (source,) = machine.run_checked("cat", "/etc/apt/sources.list.d/fsx-lustre.list").splitlines()
    assert source.startswith("deb [signed-by=/usr/share/keyrings/fsx-lustre.asc] https://")
    assert not file_exists(machine, "/etc/gpumpi/no-lustre-client")


def test_missing_lustre_client_marks_the_image_but_does_not_fail_the_build(machine: Machine) -> None:
    """The repository is removed afterwards, because a later `apt-get update` fails if AWS has no packages for this release."""
    (machine.layer / HERE[1:] / "install-packages.sh").write_text("#!/bin/sh\nexit 100\n")
    done = machine.run("/bin/bash", f"{HERE}/install-lustre-client.sh")
    assert done.returncode == 0
    assert done.stderr == f"warning: no Lustre client for kernel {KERNEL}; this AMI cannot mount FSx for Lustre\n"
    assert file_exists(machine, "/etc/gpumpi/no-lustre-client")
    assert not file_exists(machine, "/etc/apt/sources.list.d/fsx-lustre.list")


@pytest.mark.parametrize(
    ("script", "package"), [("install-lustre-client", "lustre-client"), ("install-efs-utils", "amazon-efs-utils")]
)
def test_amazon_linux_installs_the_clients_from_packages(machine: Machine, script: str, package: str) -> None:
    stub_program(machine, "dnf", "exit 1")
    machine.run_checked("/bin/bash", f"{HERE}/{script}.sh")
    assert read_requests(machine) == f"install-packages {package}\n"


def test_efs_utils_are_built_from_the_pinned_commit(machine: Machine) -> None:
    build = 'mkdir -p "$2/build"; echo "touch build/amazon-efs-utils-1.deb" >"$2/build-deb.sh"; chmod 755 "$2/build-deb.sh"'
    stub_program(machine, "git", f'echo git "$@" >>/srv/asked; [ "$3" != checkout ] || {{ {build}; }}')
    stub_program(machine, "apt-get", 'echo apt-get "$@" >>/srv/asked; for file; do :; done; test -e "$file"')
    machine.run_checked("/bin/bash", f"{HERE}/install-efs-utils.sh")
    lines = read_requests(machine).splitlines()
    assert any(line.endswith(f"https://github.com/aws/efs-utils {read_pinned_versions()['efs_utils_commit']}") for line in lines)
    assert lines[-1].endswith("/build/amazon-efs-utils-1.deb") and lines[-1].startswith("apt-get install ")


def test_the_container_runtime_is_pinned_and_its_repository_is_verified(machine: Machine) -> None:
    machine.run_checked("/bin/bash", f"{HERE}/install-container-toolkit.sh")
    repository, package = read_requests(machine).splitlines()
    assert read_pinned_versions()["nvidia_container_key_fingerprint"] in repository and "/stable/deb/amd64 /" in repository
    assert package == "install-packages nvidia-container-toolkit"
    pin = machine.run_checked("cat", "/etc/apt/preferences.d/nvidia-container-toolkit")
    assert f"Pin: version {read_pinned_versions()['nvidia_container_toolkit_version']}\n" in pin


@pytest.mark.parametrize(
    ("script", "installed"),
    [("install-lustre-client", "mount.lustre"), ("install-container-toolkit", "nvidia-container-runtime")],
)
def test_client_in_the_base_image_is_not_replaced(machine: Machine, script: str, installed: str) -> None:
    stub_program(machine, installed, "")
    machine.run_checked("/bin/bash", f"{HERE}/{script}.sh")
    assert read_requests(machine) == ""


def test_an_on_premises_driver_is_installed_with_the_nvswitch_services(machine: Machine) -> None:
    """Without nvlsm and ib_umad, CUDA fails with error 802 on B200 and B300."""
    stub_program(machine, "systemctl", 'echo "$@" >>/srv/services')
    machine.run_checked("/bin/bash", f"{HERE}/install-nvidia-driver.sh")
    branch = read_pinned_versions()["nvidia_driver_version"].partition(".")[0]
    assert {f"nvidia-open-{branch}", "nvidia-fabricmanager", "nvlsm"} <= set(read_requests(machine).split())
    assert "nvidia-fabricmanager.service" in machine.run_checked("cat", "/srv/services")
    assert "ib_umad" in machine.run_checked("sh", "-c", "cat /etc/modules-load.d/*")
