"""Tests of the base AMI checks, the selection of AWS's Open MPI, signed downloads and the first-boot check.

Stub files replace the drivers and libraries of the base AMI, at the same paths as on AWS.
"""

import json
from pathlib import Path

import pytest

from localcloud.images.recipes import read_pinned_versions
from tests.amis.machine import Machine
from tests.images.conftest import needs_roots

pytestmark = [pytest.mark.xdist_group("packer"), needs_roots]

STUBS = r"""
lib=$1
mkdir -p /opt/amazon/efa/$lib /opt/amazon/efa/bin /opt/amazon/ofi-nccl/$lib /usr/local/cuda/lib64 /opt/gdrcopy/lib /stubs
printf '# EFA installer version: 1.50.0\n' >/opt/amazon/efa_installed_packages
library() { gcc -shared -Wl,-soname,"$(basename "$1")" -o "$1" -x c /dev/null; }
library /opt/amazon/efa/$lib/libfabric.so.1
library /opt/amazon/ofi-nccl/$lib/libnccl-net-ofi.so
library /opt/amazon/ofi-nccl/$lib/libnccl-net.so
library /usr/local/cuda/lib64/libnccl.so.2
library /opt/gdrcopy/lib/libgdrapi.so.2
printf '%s\n' /opt/amazon/ofi-nccl/$lib /opt/gdrcopy/lib >/etc/ld.so.conf.d/base.conf
ldconfig
printf '#!/bin/sh\n' >/usr/bin/nvidia-smi
cat >/usr/local/bin/modinfo <<'END'
#!/bin/sh
for name; do :; done
test -e /stubs/$name && if [ "$1" = --field ]; then cat /stubs/$name; fi
END
echo 595.91.07 >/stubs/nvidia
echo 3.3.0 >/stubs/efa
echo 2.5.2 >/stubs/gdrdrv
printf '[Service]\nExecStart=true\n[Install]\nWantedBy=multi-user.target\n' >/etc/systemd/system/nvidia-fabricmanager.service
systemctl enable nvidia-fabricmanager.service
chmod +x /usr/bin/nvidia-smi /usr/local/bin/modinfo
"""
"""Script that creates stubs of the base AMI's parts, with libraries in `lib` (Ubuntu) or `lib64` (Amazon Linux)."""

CHECKS = {
    "check-driver.sh": ("NVIDIA driver 595.91.07", "rm /stubs/nvidia", "has no nvidia module"),
    "check-fabric-manager.sh": ("is enabled", "systemctl disable nvidia-fabricmanager.service", "CUDA would fail with error 802"),
    "check-efa.sh": ("EFA 1.50.0", "rm /opt/amazon/efa/lib*/libfabric.so.1", "libfabric is missing"),
    "check-ofi-nccl.sh": ("aws-ofi-nccl in", "rm /opt/amazon/ofi-nccl/lib*/*", "NCCL would use TCP instead of EFA"),
    "check-nccl.sh": ("NCCL libnccl.so.2", "rm /usr/local/cuda/lib64/libnccl.so.2", "libnccl.so.2 is neither"),
    "check-gdrcopy.sh": ("gdrdrv 2.5.2", "rm /stubs/gdrdrv", "GDRCopy is incomplete"),
}
"""Maps a check script to its output if the check passes, a command that removes the checked part, and the error after
that command."""


@pytest.fixture(scope="module", params=["lib", "lib64"])
def base_machine(
    provisioned_machine: Machine, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Machine:
    machine = provisioned_machine.clone_with_layer(tmp_path_factory.mktemp("base") / "layer")
    machine.run_checked("/bin/bash", "-ec", STUBS, "stubs", request.param)
    return machine


@pytest.mark.parametrize("check", CHECKS)
def test_check_passes_on_aws_layout_and_fails_if_the_component_is_missing(
    base_machine: Machine, tmp_path: Path, check: str
) -> None:
    printed, removal, error = CHECKS[check]
    other = base_machine.clone_with_layer(tmp_path / "layer")
    assert printed in other.run_checked(check)
    other.run_checked("/bin/sh", "-c", removal)
    failed = other.run(check)
    assert failed.returncode == 1
    assert error in failed.stderr


@pytest.mark.parametrize(
    ("check", "change", "error"),
    [
        ("check-driver.sh", "echo 550.90.07 >/stubs/nvidia", "driver 550.90.07 is older than 580"),
        ("check-driver.sh", "rm /usr/bin/nvidia-smi", "nvidia-smi is missing"),
        ("check-efa.sh", "sed -i s/1.50.0/1.9.0/ /opt/amazon/efa_installed_packages", "version 1.9.0 is older than 1.49.0"),
        ("check-efa.sh", "rm /stubs/efa", "has no efa module"),
        ("check-ofi-nccl.sh", "rm /etc/ld.so.conf.d/base.conf; ldconfig", "is not in /etc/ld.so.conf.d"),
        ("check-ofi-nccl.sh", "rm /opt/amazon/ofi-nccl/lib*/libnccl-net.so; ldconfig", "NCCL opens this name and would use TCP"),
    ],
)
def test_outdated_or_unusable_component_fails_its_check(
    base_machine: Machine, tmp_path: Path, check: str, change: str, error: str
) -> None:
    other = base_machine.clone_with_layer(tmp_path / "layer")
    other.run_checked("/bin/sh", "-c", change)
    failed = other.run(check)
    assert failed.returncode == 1
    assert error in failed.stderr


def test_driver_check_on_eks_needs_no_loaded_or_built_module(provisioned_machine: Machine, tmp_path: Path) -> None:
    """EKS nodes build the kernel module at boot, so the AMI build host has only an archive, not a built module."""
    eks = provisioned_machine.clone_with_layer(tmp_path / "layer")
    stubs = (
        "mkdir -p /var/lib/dkms-archive; touch /var/lib/dkms-archive/nvidia-open.tar.gz /usr/bin/nvidia-smi;"
        "printf '#!/bin/sh\\n[ $2 = --quiet ] || echo 580.159.03\\n' >/usr/local/bin/rpm;"
        "chmod +x /usr/bin/nvidia-smi /usr/local/bin/rpm; cd /etc/systemd/system;"
        "printf '[Service]\\nExecStart=true\\n[Install]\\nWantedBy=multi-user.target\\n' >nvidia-kmod-load.service;"
        "systemctl enable nvidia-kmod-load.service"
    )
    eks.run_checked("/bin/sh", "-ec", stubs)
    assert eks.run_checked("check-driver.sh", NODE_KIND="eks") == "NVIDIA driver 580.159.03\n"
    eks.run_checked("rm", "/var/lib/dkms-archive/nvidia-open.tar.gz")
    assert "/var/lib/dkms-archive is empty" in eks.run("check-driver.sh", NODE_KIND="eks").stderr


GDRCOPY = r"""
cp -r /tmp/amis /srv/amis
cd /srv/amis
mkdir -p source/src/gdrdrv source/packages source/scripts /lib/modules/$(uname -r)/build /usr/src/nvidia-595.91.07
echo 'MODULE_SUBDIR ?= /kernel/drivers/misc/' >source/src/gdrdrv/Makefile
printf '%s\n' @FULL_VERSION@ @VERSION@/build @MODULE_LOCATION@ >source/packages/dkms.conf
tar --create --gzip --file source.tar.gz source
sed -i "s/^gdrcopy_sha256=.*/gdrcopy_sha256=$(sha256sum source.tar.gz | cut -c 1-64)/" versions.pkrvars.hcl
mv /opt/gdrcopy/lib/libgdrapi.so.2 /srv
rm /stubs/gdrdrv
program() { printf '#!/bin/sh\n%s\n' "$2" >"$1"; chmod +x "$1"; }
program provisioners/install-packages.sh ''
program provisioners/fetch-file.sh 'cp /srv/amis/source.tar.gz "$2"'
program /usr/local/bin/make 'case $* in *exes*) exit 2;; *lib_install) cp /srv/libgdrapi.so.2 /opt/gdrcopy/lib;; esac'
program /usr/local/bin/dkms 'if [ "$1" = install ]; then echo $5 >/stubs/gdrdrv; fi'
"""
"""Script that removes GDRCopy, and creates stubs of GDRCopy's source and of the build tools."""


def test_gdrcopy_is_built_if_the_base_ami_lacks_it(base_machine: Machine, tmp_path: Path) -> None:
    other = base_machine.clone_with_layer(tmp_path / "layer")
    other.run_checked("/bin/bash", "-ec", GDRCOPY)
    version = read_pinned_versions()["gdrcopy_version"]
    assert f"GDRCopy: gdrdrv {version}" in other.run_checked("/bin/bash", "/srv/amis/provisioners/install-gdrcopy.sh")
    written = other.run_checked("cat", f"/usr/src/gdrdrv-{version}/dkms.conf", "/etc/modules-load.d/gdrdrv.conf")
    assert written.split() == [version, f"{version}/build", "/kernel/drivers/misc/", "gdrdrv"]


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        ("rm -r /lib/modules/*/build", "the headers of kernel"),
        ("rm -r /usr/src/nvidia-*", "with the driver's sources is missing"),
        ("printf '#!/bin/sh\\n[ $1 = add ]\\n' >/usr/local/bin/dkms", "its module does not compile for kernel"),
    ],
)
def test_failed_gdrcopy_build_names_the_setting_that_skips_it(
    base_machine: Machine, tmp_path: Path, fault: str, problem: str
) -> None:
    other = base_machine.clone_with_layer(tmp_path / "layer")
    other.run_checked("/bin/bash", "-ec", GDRCOPY)
    other.run_checked("/bin/sh", "-c", fault)
    failed = other.run("/bin/bash", "/srv/amis/provisioners/install-gdrcopy.sh")
    assert failed.returncode == 1
    assert problem in failed.stderr and "skip={" in failed.stderr


def test_the_pinned_gdrcopy_compiles_for_the_kernels_of_the_base_amis() -> None:
    """Ubuntu 24.04 has kernel 7.0. GDRCopy's CHANGELOG.md lists for version 2.5.2: "Fix build errors on recent
    kernels (v6.15+)"."""
    assert tuple(map(int, read_pinned_versions()["gdrcopy_version"].split("."))) >= (2, 5, 2)


AWS_MPI = "mkdir -p /opt/amazon; cp -r $(readlink -f /opt/mpi) /opt/amazon/openmpi5; mkdir -p /opt/amazon/openmpi; rm /opt/mpi"
"""Commands that copy the compiled, CUDA-aware Open MPI to the EFA installer's folder for Open MPI."""
AWS = {"OPENMPI_ORIGIN": "aws", "OPENMPI_SERIES": "5"}


def test_aws_open_mpi_is_selected_if_it_is_cuda_aware(provisioned_machine: Machine, tmp_path: Path) -> None:
    other = provisioned_machine.clone_with_layer(tmp_path / "layer")
    other.run_checked("/bin/sh", "-ec", AWS_MPI + "; echo /opt/amazon/openmpi/lib >/etc/ld.so.conf.d/000_efa.conf")
    other.run_checked("select-openmpi.sh", **AWS)
    assert other.run_checked(
        "/bin/sh", "-c", "readlink /opt/mpi; cat /etc/ld.so.conf.d/000_efa.conf /etc/ld.so.conf.d/mpi.conf"
    ).split() == [
        "/opt/amazon/openmpi5",
        "/opt/mpi/lib",
    ], "the linker must find only one of AWS's two Open MPIs"
    assert "mpirun (Open MPI)" in other.run_checked("/bin/bash", "-lc", "mpirun --version")
    assert other.run_checked("/bin/bash", "-lc", "command -v mpirun") == "/opt/mpi/bin/mpirun\n", "a login shell must find it"


def test_an_open_mpi_without_cuda_fails_the_build(provisioned_machine: Machine, tmp_path: Path) -> None:
    other = provisioned_machine.clone_with_layer(tmp_path / "layer")
    other.run_checked("install-openmpi.sh", OPENMPI_SERIES="5")
    other.run_checked("/bin/sh", "-ec", AWS_MPI)
    failed = other.run("select-openmpi.sh", **AWS)
    assert failed.returncode == 1
    assert "Open MPI in /opt/amazon/openmpi5 is not CUDA-aware" in failed.stderr


@pytest.mark.parametrize(
    ("series", "error"),
    [("4", "AWS's Open MPI 4.1 in /opt/amazon/openmpi is not CUDA-aware"), ("5", "/opt/amazon/openmpi5/bin/mpirun is missing")],
)
def test_unusable_aws_open_mpi_fails_the_build_with_a_fix(
    provisioned_machine: Machine, tmp_path: Path, series: str, error: str
) -> None:
    failed = provisioned_machine.clone_with_layer(tmp_path / "layer").run(
        "select-openmpi.sh", OPENMPI_ORIGIN="aws", OPENMPI_SERIES=series
    )
    assert failed.returncode != 0
    assert error in failed.stderr and "openmpi_origin=upstream" in failed.stderr


def test_mpi_libraries_in_lib64_are_registered_with_the_dynamic_linker(provisioned_machine: Machine, tmp_path: Path) -> None:
    other = provisioned_machine.clone_with_layer(tmp_path / "layer")
    other.run_checked("/bin/sh", "-ec", "mkdir -p /opt/other/bin /opt/other/lib64; touch /opt/other/lib64/libmpi.so.40")
    other.run_checked("register-mpi.sh", "OpenMPI", "5.0.9amzn1", "/opt/other")
    assert other.run_checked("cat", "/etc/ld.so.conf.d/mpi.conf") == "/opt/mpi/lib64\n"


def test_kernel_and_driver_packages_are_held(provisioned_machine: Machine, tmp_path: Path) -> None:
    other = provisioned_machine.clone_with_layer(tmp_path / "layer")
    record = "printf 'Package: nvidia-open-595\\nStatus: install ok installed\\nVersion: 595.91\\nArchitecture: all\\n"
    record += "Maintainer: nobody <n@example.com>\\nDescription: stub\\n\\n' >>/var/lib/dpkg/status"
    other.run_checked("/bin/sh", "-c", record)
    assert "nvidia-open-595" in other.run_checked("hold-driver.sh")
    assert "nvidia-open-595" in other.run_checked("apt-mark", "showhold")


SIGNED = r"""
cd /srv; export GNUPGHOME=/srv/keys; mkdir -m 700 keys
gpg --batch --quiet --passphrase '' --quick-generate-key signer ed25519
gpg --batch --quiet --passphrase '' --quick-generate-key stranger ed25519
gpg --armor --export >key
echo content >file
gpg --batch --quiet --local-user signer --output file.sig --detach-sign file
gpg --list-keys --with-colons signer | awk -F : '$1 == "fpr" { print $10; exit }'
"""


def test_a_download_is_accepted_only_if_signed_with_the_pinned_key(provisioned_machine: Machine, tmp_path: Path) -> None:
    other = provisioned_machine.clone_with_layer(tmp_path / "layer")
    other.run_checked("install-packages.sh", "gpg", "gpg-agent")
    fingerprint = other.run_checked("/bin/bash", "-ec", SIGNED).strip()
    fetch = ("fetch-signed.sh", "file:///srv/file", "file:///srv/key")
    other.run_checked(*fetch, fingerprint, "/srv/fetched")
    assert other.run_checked("cat", "/srv/fetched") == "content\n"

    wrong = other.run(*fetch, "0" * 40, "/srv/fetched")
    assert wrong.returncode == 1 and f"is not signed by the key {'0' * 40}; found: {fingerprint}" in wrong.stderr
    other.run_checked("/bin/sh", "-c", "echo changed >/srv/file")
    changed = other.run(*fetch, fingerprint, "/srv/fetched")
    assert changed.returncode == 1 and "no valid signature" in changed.stderr
    assert other.run("test", "-e", "/srv/fetched").returncode == 1, "nothing is left to be installed"


GPU = r"""
device() {
  mkdir -p "/fake/sys/bus/pci/devices/$1"
  cd "/fake/sys/bus/pci/devices/$1"
  echo $2 >vendor; echo $3 >class; echo $4 >device
}
device 0000:00:1e.0 0x10de 0x030200 0x2330
device 0000:00:1f.0 0x10de 0x030200 0x2330
device 0000:00:20.0 0x10de 0x068000 0x22a3
device 0000:00:21.0 0x1d0f 0x020000 0xefa2
mkdir -p /fake/etc/gpumpi /opt/amazon/efa/bin
cp /etc/gpumpi/mpi /fake/etc/gpumpi/mpi
printf '#!/bin/sh\nprintf "595.91.07\\n595.91.07\\n"\n' >/usr/local/bin/nvidia-smi
printf '#!/bin/sh\n' >/opt/amazon/efa/bin/fi_info
printf '#!/bin/sh\n' >/usr/local/bin/systemctl
chmod +x /usr/local/bin/nvidia-smi /opt/amazon/efa/bin/fi_info /usr/local/bin/systemctl
"""
"""Script that simulates a machine with two GPUs behind an NVSwitch and one EFA device."""
CHECK = "/usr/local/lib/gpumpi/first-boot-check"


def read_check_result(machine: Machine) -> dict[str, object]:
    loaded: dict[str, object] = json.loads((machine.layer / "fake/etc/gpumpi/first-boot.json").read_text())
    return loaded


def test_the_first_boot_check_does_nothing_without_a_gpu(provisioned_machine: Machine, tmp_path: Path) -> None:
    other = provisioned_machine.clone_with_layer(tmp_path / "layer")
    assert "nothing to check" in other.run_checked(CHECK, ROOT="/fake")
    assert not (other.layer / "fake").exists()


def test_the_first_boot_check_records_a_healthy_gpu_node(provisioned_machine: Machine, tmp_path: Path) -> None:
    other = provisioned_machine.clone_with_layer(tmp_path / "layer")
    other.run_checked("/bin/bash", "-ec", GPU)
    printed = other.run_checked(CHECK, ROOT="/fake")
    assert printed.startswith("gpumpi: 2 GPUs, driver 595.91.07, 1 EFA devices, OpenMPI ") and "is CUDA-aware" in printed
    assert read_check_result(other) | {"mpi": ""} == {
        "ok": True,
        "gpus": 2,
        "efa": 1,
        "driver": "595.91.07",
        "mpi": "",
        "problems": [],
    }


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        ("printf '#!/bin/sh\\necho 595.91.07\\n' >/usr/local/bin/nvidia-smi", "nvidia-smi sees 1 of 2 GPUs: 595.91.07"),
        ("printf '#!/bin/sh\\necho No devices were found; exit 6\\n' >/usr/local/bin/nvidia-smi", "nvidia-smi sees 0 of 2 GPUs"),
        ("printf '#!/bin/sh\\nexit 3\\n' >/usr/local/bin/systemctl", "nvidia-fabricmanager.service is not active"),
        ("printf '#!/bin/sh\\nexit 61\\n' >/opt/amazon/efa/bin/fi_info", "libfabric finds no EFA device, and this machine has 1"),
        ("sed -i s,^MPI_FOLDER=.*,MPI_FOLDER=/nowhere, /fake/etc/gpumpi/mpi", "Open MPI in /nowhere is not CUDA-aware"),
    ],
)
def test_the_first_boot_check_reports_each_gpu_node_fault(
    provisioned_machine: Machine, tmp_path: Path, fault: str, problem: str
) -> None:
    other = provisioned_machine.clone_with_layer(tmp_path / "layer")
    other.run_checked("/bin/bash", "-ec", GPU)
    other.run_checked("/bin/sh", "-c", fault)
    failed = other.run(CHECK, ROOT="/fake")
    assert failed.returncode == 1
    assert problem in failed.stderr
    report = read_check_result(other)
    assert report["ok"] is False
    assert problem in str(report["problems"])
    assert isinstance(report["problems"], list) and len(report["problems"]) == 1, "the fault alone"
