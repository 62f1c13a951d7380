"""Each pinned version is in a dated table of localcloud/published, or `validate` marks it as not verified."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from infra import versions
from localcloud import published
from localcloud.aws import images
from localcloud.aws.eks import versions as eks_versions
from localcloud.images import catalogue
from localcloud.images.recipes import versions as ami_pins
from localcloud.tools.catalogue import KUEUE_BEFORE

TABLES = ("addons", "amis", "images", "manifests")
EFA = "*.dkr.ecr.*.amazonaws.com*/eks/aws-efa-k8s-device-plugin"
AUTOSCALER = "registry.k8s.io/autoscaling/cluster-autoscaler"
ADDONS = [(kubernetes, name) for kubernetes in versions.LIVE_KUBERNETES_VERSIONS for name in versions.addon_versions(kubernetes)]


def entries(value: Any, path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the path and content of each table entry that has a source, a version or a release."""
    if isinstance(value, dict):
        if {"source", "release"} & value.keys() or ("kubernetes" not in value and "version" in value):
            yield path, value
        for key, inner in value.items():
            yield from entries(inner, f"{path}/{key}")


@pytest.mark.parametrize("name", ["amis", "images", "manifests"])
def test_every_entry_of_a_table_has_a_source_and_a_date(name: str) -> None:
    found = dict(entries(published.table(name)))
    assert found
    assert [
        path for path, entry in found.items() if not (entry.get("source") and str(entry.get("date", "")).startswith("20"))
    ] == []
    leaves = list(published.table(name).values()) if name != "amis" else []
    assert all(isinstance(entry, dict) and "source" in entry for tags in leaves for entry in tags.values())


def test_every_sighting_of_an_addon_has_a_date_and_is_in_its_range() -> None:
    for name, addon in published.table("addons").items():
        for entry in addon["versions"]:
            first, last = (minor(one) for one in entry["kubernetes"])
            for kubernetes, source in entry.get("seen", {}).items():
                assert "20" in source and first <= minor(kubernetes) <= last, (name, entry["version"])


def minor(kubernetes: str) -> int:
    return int(kubernetes.split(".")[1])


def unconfirmed_addon(kubernetes: str, name: str, version: str) -> bool:
    return kubernetes not in published.addon_seen(name, version)


@pytest.mark.parametrize(("kubernetes", "name"), ADDONS)
def test_an_addon_pin_is_in_its_table_or_marked_as_not_verified(kubernetes: str, name: str) -> None:
    version = versions.addon_versions(kubernetes)[name]
    marked = f"add-on {name} {version} with Kubernetes {kubernetes}" in versions.not_verified(kubernetes)
    assert unconfirmed_addon(kubernetes, name, version) == marked


def test_a_wrong_pin_is_not_in_its_table() -> None:
    assert unconfirmed_addon("1.35", versions.VPC_CNI, "v1.22.4-eksbuild.4")
    assert unconfirmed_addon("1.33", versions.VPC_CNI, "v1.23.2-eksbuild.1")
    assert "v1.35.9" not in published.image_tags(AUTOSCALER)


def test_an_addon_whose_version_the_user_sets_has_no_mark() -> None:
    own = [versions.NODE_MONITORING_AGENT, versions.FSX_CSI_DRIVER]
    assert versions.not_verified("1.34") and not versions.not_verified("1.34", own)


def test_images_of_monitoring_are_marked_as_not_verified() -> None:
    marked = versions.not_verified("1.35", monitoring=True)
    assert versions.not_verified("1.35").items() < marked.items()
    assert any("DCGM exporter" in pin and "never run" in known for pin, known in marked.items())


def test_the_end_of_standard_support_is_what_the_local_eks_reports() -> None:
    reported = {name: version.standard_until for name, version in eks_versions.VERSIONS.items()}
    assert {
        name: reported[name] for name in versions.LIVE_KUBERNETES_VERSIONS if reported[name] is not None
    } == versions.STANDARD_SUPPORT_ENDS


def image_pins() -> Iterator[tuple[str, str]]:
    for kubernetes in versions.LIVE_KUBERNETES_VERSIONS:
        yield AUTOSCALER, versions.cluster_autoscaler(kubernetes)
    yield EFA, versions.EFA_DEVICE_PLUGIN
    yield "nvcr.io/nvidia/k8s-device-plugin", versions.NVIDIA_DEVICE_PLUGIN
    yield "docker.io/mpioperator/mpi-operator", versions.MPI_OPERATOR.removeprefix("v")
    yield "registry.k8s.io/kueue/kueue", versions.KUEUE
    yield "registry.k8s.io/kueue/kueue", f"v{KUEUE_BEFORE.version}"
    yield versions.AMAZON_LINUX.rpartition(":")[0], versions.AMAZON_LINUX.rpartition(":")[2]
    yield "registry.k8s.io/pause", ami_pins()["pause_version"]


@pytest.mark.parametrize(("repository", "tag"), list(image_pins()))
def test_an_image_pin_is_in_its_table(repository: str, tag: str) -> None:
    assert published.image_tags(repository)[tag].verified


@pytest.mark.parametrize("pin", [(file.repository, file.version) for file in versions.MANIFESTS])
def test_the_git_tag_of_a_manifest_is_in_its_table(pin: tuple[str, str]) -> None:
    repository, tag = pin
    assert published.manifest_tags(repository)[tag].verified


def test_the_pinned_amis_exist_and_their_releases_are_verified() -> None:
    pins = {name: value for name, value in ami_pins().items() if name.startswith("dlami_")}
    assert len(pins) == 3
    assert set(pins.values()) <= {image.name for image in images.IMAGES}
    table = published.table("amis")["deep-learning"]
    assert all(published.proof(entry).verified for entry in table.values())
    assert {value.rpartition(" ")[2] for value in pins.values()} == {entry["release"] for entry in table.values()}


def test_the_catalog_of_images_has_exactly_the_tags_of_its_table() -> None:
    upstream = [image for image in catalogue.IMAGES if not image.is_own]
    assert all(image.tags for image in upstream)
    assert {image.name.rpartition(":")[0] for image in upstream} == set(published.table("images"))


@pytest.mark.parametrize(
    "name",
    [
        "registry.k8s.io/pause:3.99",
        "nvcr.io/nvidia/k8s-device-plugin:v0.18.9",
        "602401143452.dkr.ecr.us-east-1.amazonaws.com/eks/aws-efa-k8s-device-plugin:v0.5.99",
        f"{AUTOSCALER}:v1.35.9",
        f"mirror.example.com/all/{AUTOSCALER}:v1.35.9",
    ],
)
def test_a_tag_that_no_table_lists_cannot_be_pulled(name: str) -> None:
    assert catalogue.find(name) is None


@pytest.mark.parametrize(
    "name", [f"{AUTOSCALER}:v1.35.2", f"mirror.example.com/all/{AUTOSCALER}:v1.35.2", "openmpi.example.com/x/openmpi:5"]
)
def test_a_listed_tag_and_the_projects_own_tags_can_be_pulled(name: str) -> None:
    assert catalogue.find(name) is not None


def test_the_tables_do_not_read_the_pins() -> None:
    folder = Path(published.__file__).parent
    assert {path.stem for path in folder.glob("*.yaml")} == set(TABLES)
    imported = [
        node for path in folder.glob("*.py") for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)
    ]
    assert not [node.module for node in imported if str(node.module).startswith(("infra", "amis", "localcloud"))]
