"""The AMI's provisioners in a root file system: they are idempotent and complete, and do not skip anything silently."""

import json
import re
import shutil
from pathlib import Path

import pytest

from localcloud.hosts import ami
from localcloud.images import build, root
from localcloud.images.catalogue import OPENMPI_4
from localcloud.images.recipes import read_pinned_versions
from localcloud.processes import ROOT
from tests.amis.machine import BUILT, STEPS, Machine
from tests.amis.test_templates import list_provisioners
from tests.images.conftest import needs_roots, unpack_image

pytestmark = [pytest.mark.xdist_group("packer"), needs_roots]

BACKUPS = ("etc/passwd-", "etc/shadow-", "etc/group-", "etc/gshadow-", "etc/.pwd.lock")
NOISE = ("var/cache", "var/log", "var/lib/apt", "etc/ld.so.cache", "tmp", "var/tmp", "etc/gpumpi/provisioners", *BACKUPS)
"""Files that every run rewrites: caches, logs, backups, and the record of provisioners."""


def test_the_validation_passes_and_lists_skipped_steps(provisioned_machine: Machine) -> None:
    reported = provisioned_machine.run_checked("validate-node.sh")
    for name in list_provisioners("ec2"):
        assert f"{name}: {'skipped' if name in ami.SKIPPED else 'ok'}" in reported


@pytest.mark.mission("C", "AMI")
def test_open_mpi_is_cuda_aware(provisioned_machine: Machine) -> None:
    reported = provisioned_machine.run_checked("/opt/mpi/bin/ompi_info", "--parsable", "--all")
    assert "mca:mpi:base:param:mpi_built_with_cuda_support:value:true" in reported
    assert f"ompi:version:full:{read_pinned_versions()['openmpi4_debian_version']}" in reported


def test_the_gpu_buffer_benchmark_accepts_only_a_cuda_aware_open_mpi(provisioned_machine: Machine, tmp_path: Path) -> None:
    other = provisioned_machine.clone_with_layer(tmp_path / "layer")
    (other.layer / "srv").mkdir()
    shutil.copy(ROOT / "bench" / "gpu" / "device_buffers.py", other.layer / "srv")
    check = "import device_buffers, mpi4py.MPI; device_buffers.check_mpi_is_cuda_aware()"
    start = ("/opt/mpi/bin/mpirun", "--allow-run-as-root", "-n", "1", "python3", "-c", check)
    other.run_checked(*start, PYTHONPATH="/srv")
    other.run_checked("install-openmpi.sh")
    refused = other.run(*start, PYTHONPATH="/srv")
    assert "CannotRun: this MPI was compiled without CUDA" in refused.stderr


@pytest.mark.mission("A", "CUDA-aware image")
def test_job_image_build_produces_a_cuda_aware_open_mpi_or_fails(provisioned_machine: Machine) -> None:
    with unpack_image(OPENMPI_4) as system:
        shutil.copytree(ami.cache_folder() / "built", system / BUILT)
        with pytest.raises(root.ImageError, match="Open MPI shall be CUDA-aware: run install-cuda-headers"):
            root.provision(system, "build-openmpi.sh", provisioned_machine.settings, build.download_wheels())
        for step in ("install-cuda-headers.sh", "build-openmpi.sh", "validate-mpi.sh"):
            root.provision(system, step, provisioned_machine.settings, build.download_wheels())
        reported = root.run_in_root(
            system, ["/usr/local/bin/ompi_info", "--parsable", "--all"], {}, build.download_wheels()
        ).stdout
    assert "mca:mpi:base:param:mpi_built_with_cuda_support:value:true" in reported
    assert f"ompi:version:full:{read_pinned_versions()['openmpi4_debian_version']}" in reported


@pytest.mark.compile
def test_open_mpi_5_replaces_open_mpi_4_and_is_cuda_aware(provisioned_machine: Machine, tmp_path: Path) -> None:
    other = provisioned_machine.clone_with_layer(tmp_path / "layer")
    other.run_checked("build-openmpi.sh", OPENMPI_SERIES="5")
    reported = other.run_checked("/opt/mpi/bin/ompi_info", "--parsable", "--all")
    assert "mca:mpi:base:param:mpi_built_with_cuda_support:value:true" in reported
    assert f"ompi:version:full:{read_pinned_versions()['openmpi5_debian_version']}" in reported
    other.run_checked("validate-mpi.sh")
    for archive in (other.layer / BUILT).glob("*.tar.gz"):
        shutil.copy(archive, ami.cache_folder() / "built")


def test_running_all_provisioning_steps_again_changes_nothing(provisioned_machine: Machine, tmp_path: Path) -> None:
    again = provisioned_machine.clone_with_layer(tmp_path / "layer")
    again.run_checked("run-provisioners.sh", *STEPS)
    written = {
        str(path.relative_to(again.layer)): path for path in again.layer.rglob("*") if path.is_file() and not path.is_symlink()
    }
    lower = [provisioned_machine.layer, *provisioned_machine.below]
    changed = {
        name
        for name, path in written.items()
        if not name.startswith(NOISE)
        and path.read_bytes() not in [(below / name).read_bytes() for below in lower if (below / name).is_file()][:1]
    }
    assert changed == set()
    first = (provisioned_machine.layer / "etc/gpumpi/provisioners").read_text()
    assert sorted((again.layer / "etc/gpumpi/provisioners").read_text().splitlines()) == sorted(first.splitlines())


LOST = {
    "install-python": "apt-get purge -y -qq python3-numpy",
    "install-cuda-headers": "rm -r /opt/cuda-headers*",
    "hold-driver": "touch /usr/bin/nvidia-smi",
    "select-openmpi": "rm -r /opt/openmpi-*",
    "install-mpi4py": "rm -r /usr/local/lib/python3*/dist-packages/mpi4py*",
    "install-frameworks": "true",
    "configure-limits": "rm /etc/systemd/system.conf.d/50-gpumpi.conf",
    "create-user": "userdel --force mpiuser",
    "configure-node-ssh": "rm /etc/ssh/sshd_config.d/50-gpumpi.conf",
    "install-join-service": "rm /etc/systemd/system/*/gpumpi-join.service",
    "configure-mpi-hosts": "rm /opt/mpi/etc/*-mca-params.conf",
    "install-first-boot-check": "rm /etc/systemd/system/*/gpumpi-first-boot.service",
}
"""Maps each step to the command that undoes it."""


@pytest.mark.parametrize("step", LOST)
def test_validation_fails_and_names_a_step_that_did_not_run(provisioned_machine: Machine, tmp_path: Path, step: str) -> None:
    other = provisioned_machine.clone_with_layer(tmp_path / "layer")
    other.run_checked("/bin/sh", "-c", LOST[step])
    validated = other.run("validate-node.sh", FRAMEWORKS="chainermn" if step == "install-frameworks" else "")
    assert validated.returncode != 0
    assert re.search(rf"missing or not in the pinned version:.*\b{step}\b", validated.stderr)


def test_the_validation_fails_if_mpirun_does_not_read_the_hostfile(provisioned_machine: Machine, tmp_path: Path) -> None:
    """On a cluster, an mpirun that does not read the hostfile would start all ranks on the head node."""
    other = provisioned_machine.clone_with_layer(tmp_path / "layer")
    other.run_checked("mv", "/opt/mpi/etc/openmpi-mca-params.conf", "/opt/mpi/etc/unread-mca-params.conf")
    validated = other.run("validate-node.sh")
    assert validated.returncode != 0
    assert re.search(r"missing or not in the pinned version:.*\bconfigure-mpi-hosts\b", validated.stderr)
    assert other.run_checked("cat", "/etc/gpumpi/hostfile") == "", "the hostfile is as before"


def test_every_step_that_runs_locally_has_a_case_in_which_it_is_missing() -> None:
    assert set(LOST) | set(ami.SKIPPED) == set(list_provisioners("ec2"))


def test_validation_fails_for_missing_steps_not_listed_as_skipped(provisioned_machine: Machine, tmp_path: Path) -> None:
    other = provisioned_machine.clone_with_layer(tmp_path / "layer")
    other.run_checked("sed", "--in-place", "/^skipped/d", "/etc/gpumpi/provisioners")
    validated = other.run("validate-node.sh")
    assert validated.returncode != 0
    assert all(name in validated.stderr for name in ami.SKIPPED)


@pytest.mark.mission("C", "AMI")
def test_the_validation_fails_if_open_mpi_is_not_cuda_aware(provisioned_machine: Machine, tmp_path: Path) -> None:
    other = provisioned_machine.clone_with_layer(tmp_path / "layer")
    other.run_checked("install-openmpi.sh")
    validated = other.run("validate-node.sh")
    assert validated.returncode != 0
    assert "select-openmpi" in validated.stderr


@pytest.mark.parametrize(
    ("skip", "error"),
    [
        ({"install-eva": "no EFA"}, 'SKIP: "install-eva" is not one of the steps'),
        ({"check-efa": ""}, "SKIP: check-efa has no reason"),
    ],
)
def test_skipping_an_unknown_step_or_skipping_without_reason_is_an_error(
    provisioned_machine: Machine, tmp_path: Path, skip: dict[str, str], error: str
) -> None:
    result = provisioned_machine.clone_with_layer(tmp_path / "layer").run("run-provisioners.sh", *STEPS, SKIP=json.dumps(skip))
    assert result.returncode == 2
    assert error in result.stderr


def test_a_step_with_an_unreachable_source_ends_the_build(provisioned_machine: Machine, tmp_path: Path) -> None:
    nowhere = {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
    other = provisioned_machine.clone_with_layer(tmp_path / "layer")
    result = other.run("run-provisioners.sh", "install-efa.sh", "configure-limits.sh", SKIP="{}", **nowhere)
    assert result.returncode != 0
    assert "cannot be fetched" in result.stderr
    assert "configure-limits" not in result.stdout
    assert "done\tinstall-efa" not in (other.layer / "etc/gpumpi/provisioners").read_text()


def test_a_downloaded_source_with_a_wrong_checksum_is_rejected(provisioned_machine: Machine, tmp_path: Path) -> None:
    result = provisioned_machine.clone_with_layer(tmp_path / "layer").run(
        "fetch-source.sh", "file:///etc/debian_version", "0" * 64, "/tmp/source"
    )
    assert result.returncode != 0
    assert "is pinned" in result.stderr


def test_the_manifest_lists_installed_programs_and_skipped_steps_with_reasons(
    provisioned_machine: Machine, tmp_path: Path
) -> None:
    other = provisioned_machine.clone_with_layer(tmp_path / "layer")
    other.run_checked("write-manifest.sh", NODE_KIND="ec2", SOURCE_IMAGE="an image")
    manifest = json.loads((other.layer / "etc/gpumpi/manifest.json").read_text())
    assert manifest["skipped"] == ami.SKIPPED
    assert sorted([*manifest["installed"], *manifest["skipped"]]) == sorted(list_provisioners("ec2"))
    assert manifest["versions"] == read_pinned_versions()
    assert manifest["mpi"]["version"] == read_pinned_versions()["openmpi4_debian_version"]
    assert manifest["packages"]["python3-numpy"]
    assert (manifest["kind"], manifest["source_image"], manifest["system"]) == ("ec2", "an image", "debian 12")


def test_a_cleaned_image_contains_no_traces_of_the_build_machine(provisioned_machine: Machine, tmp_path: Path) -> None:
    other = provisioned_machine.clone_with_layer(tmp_path / "layer")
    traces = (
        "ssh-keygen -A; mkdir -p ~root/.ssh /home/mpiuser/.ssh; cp -r /tmp/amis /opt/amis;"
        "for file in ~root/.ssh/authorized_keys /home/mpiuser/.ssh/authorized_keys ~root/.bash_history /var/log/own; do"
        " echo something >$file; done; echo 0123456789abcdef0123456789abcdef >/etc/machine-id;"
        "/opt/amis/provisioners/clean-image.sh"
    )
    other.run_checked("/bin/bash", "-c", traces)
    listed = other.run_checked(
        "/bin/sh",
        "-c",
        "cat /etc/ssh/ssh_host_* ~root/.ssh/* /home/*/.ssh/* ~root/.bash_history /var/log/own /etc/machine-id; ls /opt; true",
    )
    assert listed.split() == [name for name in listed.split() if name.startswith(("cuda", "gpumpi", "mpi", "openmpi"))]
    assert not list((other.layer / "var/lib/cloud").glob("instances/*"))
