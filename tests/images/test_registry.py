"""The registry implements the OCI distribution protocol, and containerd can pull from it."""

import hashlib
import json
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from localcloud import published
from localcloud.images import build, registry
from localcloud.images.catalogue import Image
from localcloud.images.recipes import Source
from localcloud.images.registry import Registry
from localcloud.images.root import ImageError
from localcloud.kubernetes.nodes.containerd import write_registries
from localcloud.tools import debian
from tests.images.conftest import needs_root

SMALL = Image(
    "docker.io/test/small:1", "two files", (Source("Makefile", "etc/one"), Source("README.md", "two")), user="1000:1000"
)
BROKEN = Image("docker.io/test/broken:1", "cannot be made", ())
OWN = Image("own:1", "a file", (Source("Makefile", "one"),))
ANY = Image("registry.example.com/any/tag:v*", "a file", (Source("Makefile", "one"),))


TAGS = {"docker.io/test/small": ("1",), "docker.io/test/broken": ("1",), "registry.example.com/any/tag": ("v2", "v3")}
"""Maps an image to the tags that its registry has published."""


class Served:
    """A registry on a free port. Records the images that the registry builds, and its log messages."""

    def __init__(self) -> None:
        self.built: list[str] = []
        self.said: list[str] = []
        self.registry = Registry(self.said.append, self._ensure_image, self._refuse)
        self.blocked: dict[str, str] = {}
        """Maps each repository, or `<repository> layer` for its layers, to the reason why clients cannot reach the
        upstream registry.
        """
        listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        self.registry.serve(listening)

    def _ensure_image(self, image: Image, report: build.Report) -> Path:
        if image is BROKEN:
            raise ImageError("amis/provisioners/x.sh failed with 1")
        self.built.append(image.name)
        return build.ensure_image(image, report)

    def _refuse(self, address: str, repository: str, is_layer: bool) -> str:
        assert address == "127.0.0.1"
        return self.blocked.get(f"{repository} layer" if is_layer else repository, "")

    def get(self, path: str, **headers: str) -> requests.Response:
        return requests.get(f"{self.url}/v2/{path}", headers=headers, timeout=30)

    def get_manifest(self, name: str = "test/small", tag: str = "1") -> dict[str, Any]:
        document: dict[str, Any] = self.get(f"{name}/manifests/{tag}").json()
        return document


@pytest.fixture
def served_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    catalogue = (SMALL, BROKEN, OWN, ANY)
    monkeypatch.setattr(registry, "IMAGES", catalogue)
    monkeypatch.setattr("localcloud.images.catalogue.IMAGES", catalogue)
    monkeypatch.setattr(registry, "REGISTRIES", {"docker.io", "registry.example.com"})
    monkeypatch.setattr(published, "load_image_tags", TAGS.get)
    registry_server = Served()
    yield registry_server
    registry_server.registry.close()


def test_the_api_root_identifies_itself_as_a_registry(served_registry: Served) -> None:
    answer = served_registry.get("")
    assert answer.status_code == 200
    assert answer.headers["Docker-Distribution-API-Version"] == "registry/2.0"


def test_an_image_is_built_once_on_the_first_request(served_registry: Served) -> None:
    served_registry.get("test/small/manifests/2")
    assert served_registry.built == []
    served_registry.get_manifest()
    served_registry.get_manifest()
    assert served_registry.built == [SMALL.name]


def test_blobs_of_a_manifest_match_their_digests(served_registry: Served) -> None:
    answer = served_registry.get("test/small/manifests/1")
    digest = answer.headers["Docker-Content-Digest"]
    assert digest == f"sha256:{hashlib.sha256(answer.content).hexdigest()}"
    assert answer.headers["Content-Type"] == answer.json()["mediaType"]
    assert served_registry.get(f"test/small/manifests/{digest}").content == answer.content
    for blob in (answer.json()["config"], *answer.json()["layers"]):
        content = served_registry.get(f"test/small/blobs/{blob['digest']}").content
        assert f"sha256:{hashlib.sha256(content).hexdigest()}" == blob["digest"]
        assert len(content) == blob["size"]


def test_a_head_request_returns_size_and_digest_without_the_content(served_registry: Served) -> None:
    layer = served_registry.get_manifest()["layers"][0]
    answer = requests.head(f"{served_registry.url}/v2/test/small/blobs/{layer['digest']}", timeout=30)
    assert (answer.status_code, answer.content) == (200, b"")
    assert int(answer.headers["Content-Length"]) == layer["size"]
    assert answer.headers["Docker-Content-Digest"] == layer["digest"]


@pytest.mark.parametrize(
    ("requested", "part"), [("bytes=5-9", slice(5, 10)), ("bytes=100-", slice(100, None)), ("bytes=0-", slice(None))]
)
def test_a_range_of_a_blob_can_be_requested(served_registry: Served, requested: str, part: slice) -> None:
    digest = served_registry.get_manifest()["layers"][0]["digest"]
    whole = served_registry.get(f"test/small/blobs/{digest}").content
    answer = served_registry.get(f"test/small/blobs/{digest}", Range=requested)
    assert (answer.status_code, answer.content) == (206, whole[part])
    start = part.start or 0
    assert answer.headers["Content-Range"] == f"bytes {start}-{start + len(answer.content) - 1}/{len(whole)}"


def test_a_range_beyond_the_end_of_a_blob_is_rejected(served_registry: Served) -> None:
    layer = served_registry.get_manifest()["layers"][0]
    answer = served_registry.get(f"test/small/blobs/{layer['digest']}", Range=f"bytes={layer['size']}-")
    assert answer.status_code == 416
    assert answer.headers["Content-Range"] == f"bytes */{layer['size']}"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("test/small/manifests/2", "MANIFEST_UNKNOWN"),
        ("test/other/manifests/1", "MANIFEST_UNKNOWN"),
        ("test/small/manifests/1?ns=quay.io", "MANIFEST_UNKNOWN"),
        (f"test/small/manifests/sha256:{'0' * 64}", "MANIFEST_UNKNOWN"),
        (f"test/small/blobs/sha256:{'0' * 64}", "BLOB_UNKNOWN"),
        ("test/small/blobs/sha256:../../../index.json", "NAME_UNKNOWN"),
        ("test/small/blobs/..%2f..%2findex.json", "BLOB_UNKNOWN"),
        ("test/other/tags/list", "NAME_UNKNOWN"),
        ("_catalog", "NAME_UNKNOWN"),
    ],
)
def test_unknown_names_return_404_with_the_error_code_of_the_specification(served_registry: Served, path: str, code: str) -> None:
    served_registry.get_manifest()
    answer = served_registry.get(path)
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (404, code)


def test_an_image_name_is_looked_up_in_its_registry(served_registry: Served) -> None:
    assert served_registry.get("any/tag/manifests/v3?ns=registry.example.com").status_code == 200
    assert served_registry.get("any/tag/manifests/v3").status_code == 404, "docker.io has none"
    assert served_registry.get("all/registry.example.com/any/tag/manifests/v3?ns=mirror.example.com").status_code == 200


def test_a_tag_not_published_by_its_registry_is_unknown(served_registry: Served) -> None:
    assert served_registry.get("any/tag/manifests/v4?ns=registry.example.com").status_code == 404
    assert served_registry.get("any/tag/tags/list?ns=registry.example.com").json()["tags"] == ["v2", "v3"]


def test_a_client_without_network_access_to_the_registry_gets_the_reason(served_registry: Served) -> None:
    layer = served_registry.get_manifest()["layers"][0]["digest"]
    served_registry.blocked["docker.io/test/small layer"] = "s3 cannot be reached"
    assert served_registry.get("test/small/manifests/1").status_code == 200
    refused = served_registry.get(f"test/small/blobs/{layer}")
    assert (refused.status_code, refused.reason) == (504, "s3 cannot be reached")
    served_registry.blocked["docker.io/test/small"] = "docker.io cannot be reached"
    refused = served_registry.get("test/small/manifests/1")
    assert (refused.status_code, refused.reason) == (504, "docker.io cannot be reached")
    mirrored = served_registry.get("all/docker.io/test/small/manifests/1?ns=mirror.example.com")
    assert mirrored.status_code == 200, "the location of a user's mirror is unknown"


def test_the_registry_lists_tags(served_registry: Served) -> None:
    assert served_registry.get("test/small/tags/list").json() == {"name": "test/small", "tags": ["1"]}


def test_a_failed_build_is_reported_with_its_reason(served_registry: Served) -> None:
    answer = served_registry.get("test/broken/manifests/1")
    assert answer.status_code == 500
    assert answer.reason == "amis/provisioners/x.sh failed with 1", "containerd shows nothing else"
    assert answer.json()["errors"][0]["message"] == "amis/provisioners/x.sh failed with 1"
    assert served_registry.said == ["registry: amis/provisioners/x.sh failed with 1"]


def test_the_registry_rejects_pushes(served_registry: Served) -> None:
    assert requests.post(f"{served_registry.url}/v2/test/small/blobs/uploads/", data=b"x", timeout=30).status_code == 405
    assert requests.delete(f"{served_registry.url}/v2/test/small/manifests/1", timeout=30).status_code == 405


def test_many_clients_are_served_concurrently(served_registry: Served) -> None:
    layer = served_registry.get_manifest()["layers"][1]
    sizes: list[int] = []
    threads = [
        threading.Thread(target=lambda: sizes.append(len(served_registry.get(f"test/small/blobs/{layer['digest']}").content)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sizes == [layer["size"]] * 8


def test_a_disconnecting_client_does_not_affect_others(served_registry: Served) -> None:
    digest = served_registry.get_manifest()["layers"][1]["digest"]
    with socket.create_connection(("127.0.0.1", int(served_registry.url.rpartition(":")[2]))) as client:
        client.sendall(f"GET /v2/test/small/blobs/{digest} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        client.recv(10)
    assert served_registry.get("test/small/manifests/1").status_code == 200


def test_a_closed_registry_refuses_connections(served_registry: Served) -> None:
    served_registry.registry.close()
    with pytest.raises(requests.ConnectionError):
        served_registry.get("")


@pytest.fixture
def containerd(served_registry: Served, tmp_path: Path) -> Iterator[list[str]]:
    """Start a separate containerd, configured for the registry as on a node, and return the `ctr` command for it."""
    try:
        folder = debian.ensure_package(debian.CONTAINERD, print)
    except build.BuildError as error:
        pytest.skip(str(error))
    write_registries(tmp_path / "registries", served_registry.url)
    state, address = tmp_path / "containerd", str(tmp_path / "socket")
    settings = tmp_path / "config.toml"
    unused = '"io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt"'
    folders = f'root = "{state}/root"\nstate = "{state}/state"'
    settings.write_text(f"version = 2\n{folders}\ndisabled_plugins = [{unused}]\n")
    daemon = subprocess.Popen(
        [folder / "containerd", "--config", settings, "--address", address, "--log-level", "error"], stderr=subprocess.DEVNULL
    )
    ctr = [str(folder / "ctr"), "--address", address, "--namespace", "test"]
    wait = Retrying(stop=stop_after_delay(240), wait=wait_fixed(0.1), retry=retry_if_result(lambda code: code != 0))
    try:
        wait(lambda: subprocess.run([*ctr, "version"], capture_output=True, check=False).returncode)
        yield [*ctr, "content", "fetch", "--hosts-dir", str(tmp_path / "registries")]
    finally:
        daemon.terminate()
        daemon.wait()


def pull_image(containerd: list[str], name: str) -> list[str]:
    """Pull an image, and return the names of all images in containerd."""
    result = subprocess.run([*containerd, name], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    listing = [*containerd[:5], "images", "list", "--quiet"]
    return subprocess.run(listing, capture_output=True, text=True, check=True).stdout.split()


@needs_root
@pytest.mark.parametrize(
    "name", ["123456789012.dkr.ecr.us-west-2.amazonaws.com/gpumpi-local/own:1", "registry.example.com:5000/team/own:1"]
)
def test_containerd_pulls_a_project_image_from_the_repository_of_the_stack(containerd: list[str], name: str) -> None:
    assert pull_image(containerd, name) == [name]


@needs_root
def test_containerd_pulls_an_image_by_its_upstream_name(containerd: list[str], served_registry: Served) -> None:
    assert pull_image(containerd, "docker.io/test/small:1") == ["docker.io/test/small:1"]
    config = served_registry.get(f"test/small/blobs/{served_registry.get_manifest()['config']['digest']}").content
    assert json.loads(config)["config"]["User"] == "1000:1000"


@needs_root
def test_containerd_reports_a_missing_image(containerd: list[str]) -> None:
    result = subprocess.run([*containerd, "docker.io/test/small:2"], capture_output=True, text=True, check=False)
    assert result.returncode != 0
    assert "docker.io/test/small:2: not found" in result.stderr
