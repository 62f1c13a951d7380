"""Each pinned version is in a dated table of localcloud/published."""

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
from localcloud.images.recipes import read_pinned_versions as ami_pins
from localcloud.mirror import MODULES
from localcloud.tools.catalogue import HERE, KUEUE_BEFORE

TABLES = ("addons", "amis", "images")
EFA = "*.dkr.ecr.*.amazonaws.com*/eks/aws-efa-k8s-device-plugin"
AUTOSCALER = "registry.k8s.io/autoscaling/cluster-autoscaler"


def list_pinned_entries(value: Any, path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the path and content of each table entry that has a source, a version or a release."""
    if isinstance(value, dict):
        if {"source", "release", "version"} & value.keys():
            yield path, value
        for key, inner in value.items():
            yield from list_pinned_entries(inner, f"{path}/{key}")


@pytest.mark.parametrize("name", TABLES)
def test_every_table_entry_has_a_source_and_a_date(name: str) -> None:
    entries = dict(list_pinned_entries(published.load_table(name)))
    assert entries
    assert [
        path for path, entry in entries.items() if not (entry.get("source") and str(entry.get("date", "")).startswith("20"))
    ] == []
    leaves = list(published.load_table(name).values()) if name != "amis" else []
    tags = (entry for each in leaves for entry in each.get("versions", each).values())
    assert all(isinstance(entry, dict) and "source" in entry for entry in tags)


def test_nonexistent_version_is_not_in_its_table() -> None:
    assert "v1.35.9" not in published.load_image_tags(AUTOSCALER)


def test_monitoring_images_are_marked_as_not_verified() -> None:
    assert any("DCGM exporter" in pin and "never run" in reason for pin, reason in versions.MONITORING_NOT_VERIFIED.items())


def test_end_of_standard_support_matches_the_local_eks_api() -> None:
    reported = {name: version.standard_until for name, version in eks_versions.VERSIONS.items()}
    assert {name: reported[name] for name in versions.LIVE_KUBERNETES_VERSIONS} == versions.STANDARD_SUPPORT_ENDS


def list_image_pins() -> Iterator[tuple[str, str]]:
    for kubernetes in versions.LIVE_KUBERNETES_VERSIONS:
        yield AUTOSCALER, versions.choose_autoscaler_version(kubernetes)
    yield EFA, versions.EFA_DEVICE_PLUGIN
    yield "nvcr.io/nvidia/k8s-device-plugin", versions.NVIDIA_DEVICE_PLUGIN
    yield "docker.io/mpioperator/mpi-operator", versions.MPI_OPERATOR.removeprefix("v")
    yield "registry.k8s.io/kueue/kueue", versions.KUEUE
    yield "registry.k8s.io/kueue/kueue", f"v{KUEUE_BEFORE.version}"
    yield versions.AMAZON_LINUX.rpartition(":")[0], versions.AMAZON_LINUX.rpartition(":")[2]
    yield "registry.k8s.io/pause", ami_pins()["pause_version"]


@pytest.mark.parametrize(("repository", "tag"), list(list_image_pins()))
def test_pinned_image_is_listed_in_its_table(repository: str, tag: str) -> None:
    assert published.load_image_tags(repository)[tag].verified


@pytest.mark.parametrize("pin", sorted({(file.repository, file.version) for file in versions.MANIFESTS}))
def test_pinned_manifest_versions_match_verified_go_modules(pin: tuple[str, str]) -> None:
    """Go's checksum database confirmed that the version in go.sum exists."""
    repository, tag = pin
    sums = [path.read_text(encoding="utf-8") for path in HERE.glob("*/go.sum")]
    assert any(f"\n{MODULES[repository]} {tag} h1:" in text for text in sums)


def test_the_pinned_amis_exist_and_their_releases_are_verified() -> None:
    pins = {name: value for name, value in ami_pins().items() if name.startswith("dlami_")}
    assert len(pins) == 3
    assert set(pins.values()) <= {image.name for image in images.IMAGES}
    table = published.load_table("amis")["deep-learning"]
    assert all(published.parse_proof(entry).verified for entry in table.values())
    assert {value.rpartition(" ")[2] for value in pins.values()} == {entry["release"] for entry in table.values()}


def test_image_catalog_has_exactly_the_tags_of_its_table() -> None:
    upstream = [image for image in catalogue.IMAGES if not image.is_own]
    assert all(image.tags for image in upstream)
    assert {image.name.rpartition(":")[0] for image in upstream} == set(published.load_table("images"))


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
def test_tag_missing_from_every_table_cannot_be_pulled(name: str) -> None:
    assert catalogue.find_image(name) is None


@pytest.mark.parametrize(
    "name", [f"{AUTOSCALER}:v1.35.2", f"mirror.example.com/all/{AUTOSCALER}:v1.35.2", "openmpi.example.com/x/openmpi:5"]
)
def test_listed_tags_and_project_tags_can_be_pulled(name: str) -> None:
    assert catalogue.find_image(name) is not None


def test_published_tables_do_not_import_the_pins() -> None:
    folder = Path(published.__file__).parent
    assert {path.stem for path in folder.glob("*.yaml")} == set(TABLES)
    imported = [
        node for path in folder.glob("*.py") for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)
    ]
    assert not [node.module for node in imported if str(node.module).startswith(("infra", "amis", "localcloud"))]
