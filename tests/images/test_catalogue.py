"""The image catalog: names, recipes and the effect of changed recipes."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from localcloud.images import catalogue, recipes
from localcloud.images.build import get_cached_path
from localcloud.images.catalogue import IMAGES, INTEL_MPI, MPICH, OPENMPI_4, OPENMPI_5, add_registry, find_image


@contextmanager
def override_version(name: str, value: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Use a copy of the versions file with one changed value."""
    file = folder / "versions.pkrvars.hcl"
    old = recipes.read_pinned_versions()[name]
    file.write_text(recipes.VERSIONS.read_text().replace(f'{name}="{old}"', f'{name}="{value}"'))
    with monkeypatch.context() as patch:
        patch.setattr(recipes, "VERSIONS", file)
        yield


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("openmpi:4", "openmpi:4"),
        ("123456789012.dkr.ecr.us-west-2.amazonaws.com/gpumpi-local/openmpi:4", "openmpi:4"),
        ("registry.example.com/team/openmpi:4", "openmpi:4"),
        ("registry.example.com:5000/openmpi:4", "openmpi:4"),
        ("registry.k8s.io/pause:3.10.1", "registry.k8s.io/pause:3.*"),
        ("nvcr.io/nvidia/k8s-device-plugin:v0.18.0", "nvcr.io/nvidia/k8s-device-plugin:v0.*"),
        (
            "602401143452.dkr.ecr.us-west-2.amazonaws.com/eks/aws-efa-k8s-device-plugin:v0.5.21-eksbuild.13",
            "*.dkr.ecr.*.amazonaws.com*/eks/aws-efa-k8s-device-plugin:v0.*",
        ),
        ("mirror.example.com/all/nvcr.io/nvidia/k8s-device-plugin:v0.18.0", "nvcr.io/nvidia/k8s-device-plugin:v0.*"),
        ("localhost:5000/docker.io/mpioperator/mpi-operator:0.8.2", "docker.io/mpioperator/mpi-operator:0.8.2"),
    ],
)
def test_an_image_is_found_by_the_name_that_a_client_requests(asked: str, name: str) -> None:
    image = find_image(asked)
    assert image and image.name == name


@pytest.mark.parametrize(
    "asked",
    [
        "docker.io/gpumpi/openmpi:4",
        "docker.io/library/openmpi:4",
        "quay.io/gpumpi/openmpi:4",
        "mirror.example.com/all/docker.io/gpumpi/openmpi:4",
        "docker.io/registry.example.com/openmpi:4",
        "123456789012.dkr.ecr.us-west-2.amazonaws.com/others/openmpi:4",
        "123456789012.dkr.ecr.us-west-2.amazonaws.com/gpumpi-local/openmpi:6",
        "123456789012.dkr.ecr.us-west-2.amazonaws.com/gpumpi-local/openmpi",
        "docker.io/other/docker.io/mpioperator/mpi-operator:0.8.2",
    ],
)
def test_unknown_image_names_are_not_found(asked: str) -> None:
    assert find_image(asked) is None


@pytest.mark.parametrize(
    ("name", "registry", "whole"),
    [
        ("mpioperator/mpi-pi", "", "docker.io/mpioperator/mpi-pi"),
        ("busybox", "", "docker.io/library/busybox"),
        ("busybox", "docker.io", "docker.io/library/busybox"),
        ("pause", "registry.k8s.io", "registry.k8s.io/pause"),
        ("nvcr.io/nvidia/k8s-device-plugin", "", "nvcr.io/nvidia/k8s-device-plugin"),
        ("nvcr.io/nvidia/k8s-device-plugin", "mirror.example.com", "mirror.example.com/nvcr.io/nvidia/k8s-device-plugin"),
    ],
)
def test_short_image_names_are_completed_as_container_clients_do(name: str, registry: str, whole: str) -> None:
    assert add_registry(name, registry) == whole


def test_every_image_has_a_unique_folder() -> None:
    assert len({image.slug for image in IMAGES}) == len(IMAGES)


def test_job_images_run_as_an_unprivileged_user() -> None:
    assert {image.settings()["User"] for image in catalogue.JOB_IMAGES} == {"1000:1000"}


def test_a_changed_mpi_version_rebuilds_only_images_with_that_mpi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {image.name: get_cached_path(image) for image in IMAGES}
    with override_version("mpich_version", "6.0.0", tmp_path, monkeypatch):
        changed = {image.name for image in IMAGES if get_cached_path(image) != before[image.name]}
    assert changed == {"mpich:5", "docker.io/mpioperator/mpi-pi:mpich"}


def test_a_changed_framework_lock_file_rebuilds_only_images_with_that_framework(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {image.name: get_cached_path(image) for image in IMAGES}
    other = tmp_path / "chainermn.txt"
    other.write_text(recipes.Frameworks("chainermn").lock_file.read_text().replace("six==1.17.0", "six==1.18.0"))
    usual: property = vars(recipes.Frameworks)["lock_file"]
    changed = property(lambda layer: other if layer.name == "chainermn" else usual.__get__(layer))
    monkeypatch.setattr(recipes.Frameworks, "lock_file", changed)
    assert {image.name for image in IMAGES if get_cached_path(image) != before[image.name]} == {catalogue.CHAINERMN.name}


def test_a_changed_debian_suite_rebuilds_all_images_based_on_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {image.name: get_cached_path(image) for image in IMAGES}
    with override_version("debian_suite", "trixie", tmp_path, monkeypatch):
        changed = {image.name for image in IMAGES if get_cached_path(image) != before[image.name]}
    assert changed == {image.name for image in IMAGES if image.layers[0] == recipes.Root()}


def test_scripts_called_by_a_provisioner_are_part_of_its_recipe() -> None:
    provisioned = recipes.Provisioned(("install-mpich.sh",))
    assert "dpkg-query" in provisioned.render_recipe(), "install-packages.sh, called by unpack-wheel.sh"
    assert "KnownHostsCommand" in recipes.Provisioned(("configure-pod-ssh.sh",)).render_recipe()
    assert "KnownHostsCommand" not in provisioned.render_recipe()


def test_job_images_share_all_layers_except_the_last() -> None:
    digests = [recipes.compute_digests(image.layers) for image in (OPENMPI_4, OPENMPI_5, MPICH, INTEL_MPI)]
    assert len({tuple(chain[:-1]) for chain in digests}) == 1
    assert len({chain[-1] for chain in digests}) == 4


def test_packer_and_shells_can_read_the_versions_file() -> None:
    lines = [line for line in recipes.VERSIONS.read_text().splitlines() if line and not line.startswith("#")]
    assert len(lines) == len(recipes.read_pinned_versions()), 'every line is key="value" without spaces around the equals sign'
