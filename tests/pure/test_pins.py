"""`make outdated` lists every pin. A version that no registry reports is shown as unknown, with the reason."""

import http.server
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra import versions
from localcloud.pins import __main__ as outdated
from localcloud.pins import recorded
from localcloud.pins.collect import Pin, collect_pins
from localcloud.processes import ROOT

WHEEL = Pin("thing_version", "4.1.0", "a file", "PyPI", "thing")
MODULE = Pin("tool: example.com/tool", "v1.0.0", "a file", "Go", "example.com/tool")
FILES = {
    "/simple/thing/": "".join(
        f'<a href="thing-{wheel_version}-py3-none-any.whl">{wheel_version}</a>' for wheel_version in ("4.1.0", "4.2.0", "5.0.0")
    ),
    "/example.com/tool/@v/list": "v1.0.0\nv1.2.0\n",
    "/example.com/tool/@v/v1.2.0.info": json.dumps({"Version": "v1.2.0", "Time": "2026-09-03T10:00:00Z"}),
    "/example.com/tool/@v/v1.2.0.mod": "module example.com/tool\n",
}


class Index(http.server.BaseHTTPRequestHandler):
    """Fake Python package index and Go module proxy."""

    def do_GET(self) -> None:
        body = FILES.get(self.path, "").encode()
        self.send_response(200 if body else 404)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def registries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Serve the index, and configure `pip` and `go` to use it. Yields its address."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Index) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        configure_registries(monkeypatch, tmp_path, f"http://127.0.0.1:{server.server_port}")
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def configure_registries(monkeypatch: pytest.MonkeyPatch, folder: Path, address: str) -> None:
    for name in ("PIP_FIND_LINKS", "PIP_NO_INDEX", "PIP_EXTRA_INDEX_URL", "GONOPROXY", "GOPRIVATE"):
        monkeypatch.delenv(name, raising=False)
    go = {"GOPROXY": address, "GOSUMDB": "off", "GOENV": "off", "GOPATH": str(folder / "go"), "GOMODCACHE": str(folder / "mod")}
    pip = {"PIP_CONFIG_FILE": "/dev/null", "PIP_INDEX_URL": f"{address}/simple", "PIP_NO_CACHE_DIR": "1"}
    for name, value in {**go, **pip, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}.items():
        monkeypatch.setenv(name, value)


def test_newest_version_comes_from_configured_index_and_proxy(registries: str) -> None:
    wheel, module = outdated.build_line(WHEEL), outdated.build_line(MODULE)
    assert (wheel.version, wheel.newest, wheel.source) == ("4.1.0", "5.0.0", "PyPI: thing")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", wheel.date)
    assert (module.newest, module.source, module.date) == ("v1.2.0", "Go: example.com/tool", "2026-09-03")


def test_pin_restricted_to_a_series_stays_in_that_series(registries: str) -> None:
    series = Pin("thing_version", "4.1.0", "a file", "PyPI", "thing", "4.")
    assert outdated.build_line(series).newest == "4.2.0"


@pytest.mark.parametrize("pin", [WHEEL, MODULE], ids=["pip", "go"])
def test_newest_version_is_unknown_with_the_reason_if_the_registry_is_unreachable(
    pin: Pin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure_registries(monkeypatch, tmp_path, "http://127.0.0.1:9")  # nothing listens on port 9 (discard)
    line = outdated.build_line(pin)
    assert (line.newest, line.date) == ("unknown", "")
    assert line.source == f"{pin.registry}: {pin.package}: connection refused"


@pytest.mark.parametrize(
    ("pin", "reason"),
    [
        (Pin("other", "1.0", "a file", "PyPI", "other"), "no matching distribution"),
        (Pin("other", "v1.0.0", "a file", "Go", "example.com/other"), "404 not found"),
        (Pin("thing", "3.0", "a file", "PyPI", "thing", "3."), "pip lists no version 3.*"),
    ],
    ids=["pip", "go", "series"],
)
def test_package_missing_from_the_registry_has_unknown_newest_version(pin: Pin, reason: str, registries: str) -> None:
    line = outdated.build_line(pin)
    assert (line.newest, line.source) == ("unknown", f"{pin.registry}: {pin.package}: {reason}")


def test_newest_version_is_unknown_if_the_registry_lacks_the_pinned_version(registries: str) -> None:
    line = outdated.build_line(Pin("tool", "v1.10.0", "a file", "Go", "example.com/tool"))
    assert (line.newest, line.source) == ("unknown", "Go: example.com/tool: lists only v1.2.0, older than the pin")


def test_pin_without_a_registry_uses_the_recorded_version_with_source_and_date() -> None:
    (efa,) = [pin for pin in collect_pins() if pin.name == "efa_version"]
    line = outdated.build_line(efa)
    assert (line.newest, line.date) == ("1.51.0", "2026-10-22")
    assert "efa-changelog" in line.source


def test_every_pin_has_a_registry_or_a_source() -> None:
    """For a new pin without a registry, add an entry to localcloud/pins/recorded.py."""
    without = [
        pin.name for pin in collect_pins() if not (pin.registry or pin.name in recorded.RECORDED or recorded.WHERE.get(pin.name))
    ]
    assert without == []
    names = {pin.name for pin in collect_pins()}
    assert {*recorded.RECORDED, *recorded.WHERE} <= names, "an entry without a pin"


def test_every_version_pinned_by_infra_is_listed() -> None:
    listed = {pin.version for pin in collect_pins() if pin.file == "infra/versions.py"}
    text = (ROOT / "infra" / "versions.py").read_text(encoding="utf-8")
    pinned = re.findall(r'^[^#\n]*"(v?\d+\.\d+\.\d+[^"]*)"', text, re.MULTILINE)
    assert len(pinned) > 10 and set(pinned) == listed
    assert versions.KUEUE in listed


def test_tools_and_requirements_are_listed() -> None:
    version_by_pin = {(pin.file, pin.name): pin.version for pin in collect_pins()}
    assert version_by_pin["localcloud/tools/kueue/go.mod", "kueue: sigs.k8s.io/kueue"] == versions.KUEUE
    for file in sorted((ROOT / "localcloud" / "tools").glob("*/go.mod")):
        listed = [name for path, name in version_by_pin if path == str(file.relative_to(ROOT))]
        assert listed or file.parent.name == "pause", f"{file}: no pin"
    for name in ("requirements.txt", "requirements-dev.txt"):
        lines = [line for line in (ROOT / name).read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
        assert len({pin_name for path, pin_name in version_by_pin if path == name}) == len(lines)


def test_version_table_and_json_have_the_same_content(capsys: pytest.CaptureFixture[str]) -> None:
    assert outdated.main(["efa"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["pin", "version", "newest", "date", "source", "file"]
    assert outdated.main(["efa", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [entry["pin"] for entry in document] == [row.split()[0] for row in rows]
    assert set(document[0]) == {"pin", "version", "newest", "date", "source", "file"}
