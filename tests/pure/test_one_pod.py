"""bench/gpu/one_pod.py does not touch a machine's kubelet or an existing folder."""

import importlib
import json
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def one_pod_module() -> Any:
    return importlib.import_module("bench.gpu.one_pod")


@pytest.mark.parametrize("existing", ["work", "plugins"])
def test_existing_directory_is_an_error(
    one_pod_module: Any, existing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / existing).mkdir()
    monkeypatch.setattr(one_pod_module, "PLUGINS", tmp_path / "plugins")
    monkeypatch.setattr(sys, "argv", ["one_pod.py", "--work", str(tmp_path / "work")])
    with pytest.raises(SystemExit) as ended:
        one_pod_module.main()
    assert ended.value.code == 2 and f"{tmp_path / existing} exists" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == [existing]


def test_all_missing_programs_are_listed_at_once(
    one_pod_module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(one_pod_module, "PLUGINS", tmp_path / "plugins")
    monkeypatch.setattr(sys, "argv", ["one_pod.py", "--work", str(tmp_path / "work")])
    with pytest.raises(SystemExit):
        one_pod_module.main()
    assert "not on PATH: containerd, " in (said := capsys.readouterr().err) and "nvidia-cdi-hook. Install them" in said
    assert not list(tmp_path.iterdir())


def test_image_contains_python_and_the_programs_but_no_driver(
    one_pod_module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pause", "nvidia-device-plugin"):
        (tmp_path / name).write_text(name)
        (tmp_path / name).chmod(0o755)
    standard = tmp_path / "lib"
    for module in ("ctypes/__init__.py", "test/test_ctypes.py", "site-packages/torch/__init__.py"):
        (standard / module).parent.mkdir(parents=True)
        (standard / module).touch()
    monkeypatch.setattr(one_pod_module.sysconfig, "get_path", lambda _: str(standard))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/sbin:/usr/bin:/sbin:/bin")
    one_pod_module.write_image(tmp_path / "image.tar")
    with tarfile.open(tmp_path / "image.tar") as archive:
        (layer,) = json.load(archive.extractfile("manifest.json"))[0]["Layers"]  # type: ignore[arg-type]
        with tarfile.open(fileobj=archive.extractfile(layer)) as files:
            names = files.getnames()
    assert {"usr/bin/pause", "usr/bin/nvidia-device-plugin", str(Path(sys.executable).resolve()).lstrip("/")} <= set(names)
    assert [Path("/", name) for name in names if name.endswith(".py")] == [standard / "ctypes" / "__init__.py"]
    assert not any("libcuda.so" in name or "libnvidia" in name for name in names)
