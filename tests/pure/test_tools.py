"""Programs that the local cloud builds or downloads, and the error messages if a build or download fails."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from localcloud.processes import ROOT
from localcloud.tools import build, catalogue, debian, language_exec
from localcloud.tools.build import BuildError
from localcloud.tools.catalogue import ON_DEMAND, TOOLS, Module, Tool

EVERY = (*TOOLS, *ON_DEMAND)
MODULES = sorted({tool.module for tool in EVERY}, key=lambda module: module.name)


@pytest.mark.parametrize("module", [tool for tool in MODULES if not any(tool.folder.glob("*.c"))], ids=lambda module: module.name)
def test_go_module_pins_match_the_catalogue(module: Module) -> None:
    required = (module.folder / "go.mod").read_text()
    for package in module.packages:
        if package.startswith("gpumpi/"):
            assert (module.folder / "main.go").exists()
        else:
            assert any(
                f"{package}/".startswith(f"{path}/") and version.removeprefix("v") == module.version
                for path, version in re.findall(r"^\s*(?:require )?(\S+) (v\S+)", required, re.MULTILINE)
            ), package
            assert re.search(rf"^(tool )?\s*{re.escape(package)}$", required, re.MULTILINE), f"{package} is a tool"


def test_every_program_of_a_module_is_a_tool() -> None:
    assert {(tool.module.name, tool.name) for tool in EVERY} == {
        (module.name, program) for module in MODULES for program in module.programs
    }


def test_changed_pin_or_source_uses_another_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "HERE", tmp_path)
    module = Module("thing", "1.0.0", ("gpumpi/tools/thing",))
    module.folder.mkdir()
    folders = set()
    for name, text in (("go.mod", "a"), ("go.mod", "b"), ("go.sum", "c"), ("main.go", "d"), ("notes.txt", "e")):
        (module.folder / name).write_text(text)
        folders.add(build.get_cached_folder(module))
    assert len(folders) == 4


def test_file_missing_from_a_go_module_is_added_before_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "HERE", tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    page = ("example.com/pages/hello/page.html", "hi")
    module = Module("thing", "1.0.0", ("example.com/pages/hello",), tags=("loud",), added=(page,))
    upstream = tmp_path / "upstream"
    (upstream / "hello").mkdir(parents=True)
    (upstream / "go.mod").write_text("module example.com/pages\n\ngo 1.24\n")
    embed = 'import _ "embed"\n\n//go:embed page.html\nvar page string\n'
    (upstream / "hello" / "main.go").write_text(f"package main\n\n{embed}\nfunc main() {{ print(page + end) }}\n")
    for tag, end in (("loud", "!"), ("!loud", ".")):
        (upstream / "hello" / f"end{len(tag)}.go").write_text(f'//go:build {tag}\n\npackage main\n\nconst end = "{end}"\n')
    module.folder.mkdir()
    needs = f"tool example.com/pages/hello\n\nrequire example.com/pages v0.0.0\n\nreplace example.com/pages => {upstream}\n"
    (module.folder / "go.mod").write_text(f"module gpumpi/tools/thing\n\ngo 1.24\n\n{needs}")
    (module.folder / "go.sum").touch()
    program = build.ensure_tool(Tool("hello", module), print)
    assert subprocess.run([program], capture_output=True, text=True, check=True).stderr == "hi!"


def test_missing_go_is_reported_with_the_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    kubelet: Tool = catalogue.KUBELET
    with pytest.raises(BuildError, match=r"kubernetes 1\.35\.0 is built from source and needs Go 1\.24 or newer on PATH"):
        build.ensure_tool(kubelet, print)


def test_program_on_path_is_preferred_over_debian_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "runc").write_text("#!/bin/sh\n")
    (tmp_path / "runc").chmod(0o755)
    assert debian.ensure_package(debian.RUNC, print) == tmp_path


def test_program_added_in_a_newer_release_is_fetched_into_an_old_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debian, "_find_installed", lambda package: None)
    monkeypatch.setattr(debian, "_require_debian", lambda package: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def fetch_package(package: debian.Package, root: Path, downloads: Path) -> None:
        (root / "usr/bin").mkdir(parents=True, exist_ok=True)
        for program in ("one", "two"):
            (root / "usr/bin" / program).touch(mode=0o755)

    monkeypatch.setattr(debian, "_download_and_unpack", fetch_package)
    older = debian.ensure_package(debian.Package("p", ("one",)), print)
    assert debian.ensure_package(debian.Package("p", ("one", "two")), print) == older
    assert sorted(path.name for path in older.iterdir()) == ["one", "two"]


def test_package_with_browser_dependencies_is_fetched_without_dependencies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(debian, "_require_debian", lambda package: None)
    commands: list[list[str]] = []

    def record_command(command: list[str], folder: Path) -> tuple[int, str]:
        commands.append(command)
        return 1, ""

    monkeypatch.setattr(debian, "_run", record_command)
    with pytest.raises(BuildError, match=r"^prometheus, promtool: not found on PATH, and apt-get could not download"):
        debian.ensure_package(debian.PROMETHEUS, print)
    downloads = [command for command in commands if "download" in command]
    assert [command[-2:] for command in downloads] == [["download", "prometheus"]] * 2, "with old, then new lists"
    assert not [command for command in commands if "--simulate" in command]


def test_missing_program_is_named_on_systems_other_than_debian(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(BuildError, match=r"^no-such-program: not found on PATH\. .* Debian.* \(apt-get and dpkg-deb not found\)"):
        debian.ensure_package(debian.Package("nothing", ("no-such-program",)), print)


def test_program_with_bundled_libraries_finds_its_libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "root"
    libraries, program = root / "usr/lib/x86_64-linux-gnu", root / "usr/sbin/many"
    (libraries / "xtables").mkdir(parents=True)
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\necho "$LD_LIBRARY_PATH $XTABLES_LIBDIR $1"\n')
    program.chmod(0o755)
    debian._create_bin_folder(debian.Package("p", ("one",), links=(("one", "usr/sbin/many"),)), root, tmp_path / "bin")
    said = subprocess.run([tmp_path / "bin/one", "argument"], capture_output=True, text=True, check=True, env=dict(os.environ))
    assert said.stdout == f"{libraries} {libraries / 'xtables'} argument\n"


def test_pulumi_language_script_has_the_version_of_cli_and_sdk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    version = catalogue.PULUMI.version
    assert f"{language_exec.MODULE} v{version} " in (catalogue.PULUMI.module.folder / "go.mod").read_text()
    assert f"{language_exec.MODULE} v{version} h1:" in (catalogue.PULUMI.module.folder / "go.sum").read_text()
    assert f"\npulumi=={version} " in (ROOT / "requirements.lock").read_text()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert version in str(language_exec.get_cached_script_path())


def test_pulumi_language_script_is_fetched_once_and_verified_by_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "module" / language_exec.FILE
    source.parent.mkdir(parents=True)
    source.write_text("print()\n")
    go = tmp_path / "bin" / "go"
    go.parent.mkdir()
    calls = tmp_path / "calls"
    go.write_text(f'#!/bin/sh\necho "$GOFLAGS $PWD $*" >>{calls}\necho \'{{"Dir": "{tmp_path / "module"}"}}\'\n')
    go.chmod(0o755)
    monkeypatch.setenv("PATH", str(go.parent))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert language_exec.ensure_script(print) == language_exec.ensure_script(print) == language_exec.get_cached_script_path()
    assert language_exec.get_cached_script_path().read_text() == "print()\n"
    assert calls.read_text().splitlines() == [
        f"-mod=readonly {catalogue.PULUMI.module.folder} mod download -json {language_exec.MODULE}"
    ]


def test_pulumi_language_script_cannot_be_fetched_without_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(BuildError, match="pulumi-language-python-exec is fetched from a Go module and needs Go"):
        language_exec.ensure_script(print)
