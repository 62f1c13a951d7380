"""Manifests are read from the cache, a mirror or upstream, and only the pinned content is accepted."""

import hashlib
import urllib.error
from email.message import Message
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from infra.facts import manifests
from infra.platform.objects import without_descriptions
from infra.versions import MANIFESTS, Pinned
from localcloud.mirror import MODULES

TEXT = b"kind: One\nmetadata: {name: a}\n---\n---\nkind: Two\nmetadata: {name: b}\n"
FILE = Pinned("owner/project", "v1.2.3", "deploy/all.yaml", hashlib.sha256(TEXT).hexdigest())


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(manifests.MIRROR_VARIABLE, raising=False)
    monkeypatch.setattr(urllib.request, "urlopen", nobody)
    return tmp_path / "cache" / "gpumpi" / "manifests"


def nobody(address: str, timeout: float) -> Any:
    raise urllib.error.URLError(f"no route to {address}")


def mirror(folder: Path, content: bytes = TEXT) -> str:
    path = folder / "owner/project/v1.2.3/deploy/all.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return str(folder)


def test_a_mirror_s_file_is_parsed_and_its_empty_documents_are_left_out(tmp_path: Path) -> None:
    upstream = manifests.load([FILE], mirror(tmp_path / "mirror"))
    assert [document["kind"] for document in upstream.of(FILE)] == ["One", "Two"]
    assert upstream.missing == {}


def test_the_variable_names_a_mirror_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(manifests.MIRROR_VARIABLE, mirror(tmp_path / "mirror"))
    assert manifests.load([FILE], None).objects


def test_what_was_fetched_once_needs_neither_mirror_nor_network(tmp_path: Path, cache: Path) -> None:
    manifests.load([FILE], mirror(tmp_path / "mirror"))
    assert manifests.load([FILE], None).objects
    assert [path.name for path in cache.iterdir()] == [f"{FILE.sha256}.yaml"]


def test_a_spoilt_cache_is_not_believed(tmp_path: Path, cache: Path) -> None:
    manifests.load([FILE], mirror(tmp_path / "mirror"))
    (cache / f"{FILE.sha256}.yaml").write_text("kind: Evil")
    assert [document["kind"] for document in manifests.load([FILE], str(tmp_path / "mirror")).of(FILE)] == ["One", "Two"]


def test_another_content_is_refused_and_not_kept(tmp_path: Path, cache: Path) -> None:
    upstream = manifests.load([FILE], mirror(tmp_path / "mirror", b"kind: Evil\n"))
    assert upstream.objects == {}
    assert "does not match its pinned hash: sha256 is" in upstream.missing[FILE.path]
    assert not cache.exists() or not list(cache.iterdir())


def test_a_mirror_without_the_file_says_which_is_missing(tmp_path: Path) -> None:
    missing = manifests.load([FILE], str(tmp_path)).missing[FILE.path]
    assert missing == f"{tmp_path}/owner/project/v1.2.3/deploy/all.yaml cannot be read: No such file or directory"


def test_upstream_is_asked_at_its_tag(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def answer(address: str, timeout: float) -> BytesIO:
        asked.append(address)
        return BytesIO(TEXT)

    monkeypatch.setattr(urllib.request, "urlopen", answer)
    assert manifests.load([FILE], None).objects
    assert asked == ["https://raw.githubusercontent.com/owner/project/v1.2.3/deploy/all.yaml"]


def test_no_way_to_upstream_is_a_sentence() -> None:
    missing = manifests.load([FILE], None).missing[FILE.path]
    address = "https://raw.githubusercontent.com/owner/project/v1.2.3/deploy/all.yaml"
    assert missing == f"{address} cannot be fetched: no route to {address}"


def test_an_answer_that_is_no_file_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(address: str, timeout: float) -> Any:
        raise urllib.error.HTTPError(address, 404, "Not Found", Message(), None)

    monkeypatch.setattr(urllib.request, "urlopen", answer)
    assert manifests.load([FILE], None).missing[FILE.path].endswith("cannot be fetched: 404 Not Found")


def test_a_mirror_without_encryption_is_not_asked() -> None:
    assert manifests.load([FILE], "http://mirror").missing[FILE.path].endswith("is not an https URL")


def test_a_cache_that_cannot_be_written_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert manifests.load([FILE], mirror(tmp_path / "mirror")).objects


def test_every_pinned_file_has_a_checksum_a_tag_and_a_module_that_holds_it() -> None:
    assert len({file.path for file in MANIFESTS}) == len(MANIFESTS) == len({file.sha256 for file in MANIFESTS})
    for file in MANIFESTS:
        assert len(file.sha256) == 64 and file.version.startswith("v")
        assert file.repository in MODULES


def test_prose_goes_and_properties_called_description_stay() -> None:
    schema = {
        "description": "prose",
        "properties": {
            "description": {"type": "string", "description": "prose"},
            "properties": {"type": "object", "properties": {"description": {"type": "string"}}},
        },
        "x-kubernetes-validations": [{"rule": "self.description != ''", "message": "stays"}],
    }
    assert without_descriptions(schema) == {
        "properties": {
            "description": {"type": "string"},
            "properties": {"type": "object", "properties": {"description": {"type": "string"}}},
        },
        "x-kubernetes-validations": [{"rule": "self.description != ''", "message": "stays"}],
    }
