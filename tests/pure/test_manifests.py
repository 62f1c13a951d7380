"""Manifests are read from the cache, a mirror or upstream, and only the pinned content is accepted."""

import hashlib
import urllib.error
from email.message import Message
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from infra.facts import manifests
from infra.platform.objects import remove_descriptions
from infra.versions import MANIFESTS, Pinned
from localcloud.mirror import MODULES

TEXT = b"kind: One\nmetadata: {name: a}\n---\n---\nkind: Two\nmetadata: {name: b}\n"
FILE = Pinned("owner/project", "v1.2.3", "deploy/all.yaml", hashlib.sha256(TEXT).hexdigest())


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(manifests.MIRROR_VARIABLE, raising=False)
    monkeypatch.setattr(urllib.request, "urlopen", refuse_connection)
    return tmp_path / "cache" / "gpumpi" / "manifests"


def refuse_connection(address: str, timeout: float) -> Any:
    raise urllib.error.URLError(f"no route to {address}")


def write_mirror(folder: Path, content: bytes = TEXT) -> str:
    path = folder / "owner/project/v1.2.3/deploy/all.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return str(folder)


def test_file_from_a_mirror_is_parsed_without_empty_documents(tmp_path: Path) -> None:
    upstream = manifests.load_manifests([FILE], write_mirror(tmp_path / "mirror"))
    assert [document["kind"] for document in upstream.get_objects(FILE)] == ["One", "Two"]
    assert upstream.missing == {}


def test_environment_variable_sets_the_mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(manifests.MIRROR_VARIABLE, write_mirror(tmp_path / "mirror"))
    assert manifests.load_manifests([FILE], None).objects


def test_cached_file_needs_neither_mirror_nor_network(tmp_path: Path, cache_folder: Path) -> None:
    manifests.load_manifests([FILE], write_mirror(tmp_path / "mirror"))
    assert manifests.load_manifests([FILE], None).objects
    assert [path.name for path in cache_folder.iterdir()] == [f"{FILE.sha256}.yaml"]


def test_corrupt_cache_entry_is_fetched_again(tmp_path: Path, cache_folder: Path) -> None:
    manifests.load_manifests([FILE], write_mirror(tmp_path / "mirror"))
    (cache_folder / f"{FILE.sha256}.yaml").write_text("kind: Evil")
    assert [document["kind"] for document in manifests.load_manifests([FILE], str(tmp_path / "mirror")).get_objects(FILE)] == [
        "One",
        "Two",
    ]


def test_content_with_a_wrong_hash_is_refused_and_not_cached(tmp_path: Path, cache_folder: Path) -> None:
    upstream = manifests.load_manifests([FILE], write_mirror(tmp_path / "mirror", b"kind: Evil\n"))
    assert upstream.objects == {}
    assert "does not match its pinned hash: sha256 is" in upstream.missing[FILE.path]
    assert not cache_folder.exists() or not list(cache_folder.iterdir())


def test_error_names_the_file_missing_from_a_mirror(tmp_path: Path) -> None:
    missing = manifests.load_manifests([FILE], str(tmp_path)).missing[FILE.path]
    assert missing == f"{tmp_path}/owner/project/v1.2.3/deploy/all.yaml cannot be read: No such file or directory"


def test_upstream_file_is_fetched_at_its_tag(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def serve_text(address: str, timeout: float) -> BytesIO:
        asked.append(address)
        return BytesIO(TEXT)

    monkeypatch.setattr(urllib.request, "urlopen", serve_text)
    assert manifests.load_manifests([FILE], None).objects
    assert asked == ["https://raw.githubusercontent.com/owner/project/v1.2.3/deploy/all.yaml"]


def test_unreachable_upstream_gets_one_line_error() -> None:
    missing = manifests.load_manifests([FILE], None).missing[FILE.path]
    address = "https://raw.githubusercontent.com/owner/project/v1.2.3/deploy/all.yaml"
    assert missing == f"{address} cannot be fetched: no route to {address}"


def test_http_error_of_upstream_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_not_found(address: str, timeout: float) -> Any:
        raise urllib.error.HTTPError(address, 404, "Not Found", Message(), None)

    monkeypatch.setattr(urllib.request, "urlopen", raise_not_found)
    assert manifests.load_manifests([FILE], None).missing[FILE.path].endswith("cannot be fetched: 404 Not Found")


def test_unencrypted_mirror_is_refused() -> None:
    assert manifests.load_manifests([FILE], "http://mirror").missing[FILE.path].endswith("is not an https URL")


def test_unwritable_cache_does_not_prevent_loading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert manifests.load_manifests([FILE], write_mirror(tmp_path / "mirror")).objects


def test_every_pinned_manifest_has_a_checksum_a_tag_and_a_module() -> None:
    assert len({file.path for file in MANIFESTS}) == len(MANIFESTS) == len({file.sha256 for file in MANIFESTS})
    for file in MANIFESTS:
        assert len(file.sha256) == 64 and file.version.startswith("v")
        assert file.repository in MODULES


def test_schema_descriptions_are_removed_but_properties_called_description_stay() -> None:
    schema = {
        "description": "prose",
        "properties": {
            "description": {"type": "string", "description": "prose"},
            "properties": {"type": "object", "properties": {"description": {"type": "string"}}},
        },
        "x-kubernetes-validations": [{"rule": "self.description != ''", "message": "stays"}],
    }
    assert remove_descriptions(schema) == {
        "properties": {
            "description": {"type": "string"},
            "properties": {"type": "object", "properties": {"description": {"type": "string"}}},
        },
        "x-kubernetes-validations": [{"rule": "self.description != ''", "message": "stays"}],
    }
