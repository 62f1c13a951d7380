"""What the documents say is so."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from cli.main import every_command
from cli.settings import OF, rows
from tests.docs.tables import ROOT, TABLES, between

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
README = (ROOT / "README.md").read_text()


def verbs() -> dict[str, set[str]]:
    """`validate`, `local up`, ... -> their options."""
    found: dict[str, set[str]] = {}
    for name, command in every_command():
        options = (parameter.opts + parameter.secondary_opts for parameter in command.params)
        found[name] = {option for each in options for option in each}
    return found


@pytest.mark.parametrize(("name", "begin", "end", "render"), TABLES, ids=lambda value: value if isinstance(value, str) else "")
def test_a_table_that_follows_from_the_code_is_up_to_date(name: str, begin: str, end: str, render: Callable[[], str]) -> None:
    text = (ROOT / name).read_text()
    start, stop = between(text, begin, end)
    assert text[start:stop] == render(), "renew it with: python -m tests.docs.tables"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_of_ours_exists(document: Path) -> None:
    known, targets = verbs(), set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    text = document.read_text()
    for target in re.findall(r"(?:^|`)make ([a-z0-9-]+)", text, re.MULTILINE):
        assert target in targets, f"make {target}"
    for line in re.findall(r"scripts/cluster ([^`\n|)]+)", text):
        words = line.split()
        verb = f"local {words[1]}" if words[0] == "local" and len(words) > 1 else words[0]
        assert verb.rstrip(",;:.") in {*known, "local", "...", "--help", "--version", "--install-completion"}, line
        ours = line.partition(" -- ")[0]  # what is behind it is a command of somebody else
        for option in re.findall(r"--[a-z-]+", ours):
            assert option == "--help" or option in known[verb], line


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_and_path_leads_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
        if not target.startswith("http"):
            assert (document.parent / target).exists(), target
    for path in re.findall(r"`((?:localcloud|infra|cli|tests|stacks|bench|docs|workloads)/[\w/.-]+)`", document.read_text()):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_setting_that_is_named_by_its_path_exists(document: Path) -> None:
    known = {re.sub(r"\[\d*\]", "", row.path) for model in OF.values() for row in rows(model)}
    known |= {path.rpartition(".")[0] for path in known}
    for path in re.findall(r"[`:']((?:target|network|storage|pools|platform)(?:\[\d*\])?(?:\.\w+)+)", document.read_text()):
        assert re.sub(r"\[\d*\]", "", path) in known, path


OPERATIONS = (
    *("The first cluster", "Submit a job", "Watch it", "Scale", "Use a reservation", "Rotate and upgrade", "Debug, by symptom"),
    *("Destroy", "Cost hygiene"),
)


def test_operations_are_told_by_task() -> None:
    text = (ROOT / "docs" / "operations.md").read_text()
    assert re.findall(r"^## (.+)", text, re.MULTILINE)[: len(OPERATIONS)] == list(OPERATIONS)


def test_the_readme_names_every_stack() -> None:
    named = set(re.findall(r"^\| `([\w-]+)` \| ", README.split("| stack | shows |")[1].split("\n\n")[0], re.MULTILINE))
    assert named == {file.name.removeprefix("Pulumi.").removesuffix(".yaml") for file in (ROOT / "stacks").glob("Pulumi.*.yaml")}


def test_the_layout_shows_every_folder_of_the_top_level() -> None:
    layout = README.split("## Layout")[1]
    tracked = subprocess.run(
        ["git", "ls-tree", "-d", "--name-only", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    for folder in tracked.split():
        assert folder.startswith(".") or folder in layout, folder


def test_the_readme_tells_what_every_folder_of_tests_proves() -> None:
    folders = {f"tests/{file.parent.name}" for file in (ROOT / "tests").glob("*/test_*.py")}
    assert set(re.findall(r"^\| [\w ]+ \| `(tests/\w+)` \| ", README, re.MULTILINE)) == folders


def test_nothing_names_the_machine_it_was_written_on() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    own = re.compile(
        rf"{re.escape(str(ROOT))}\b|(?<![\w.])/(?:root|work)/|^--(?:index-url|extra-index-url|find-links)", re.MULTILINE
    )
    for name in filter(None, listed):
        if (ROOT / name).is_file() and (found := own.search((ROOT / name).read_text(errors="ignore"))):
            assert name == "tests/docs/test_documents.py", f"{name}: {found[0]}"


def test_every_make_target_says_what_it_does() -> None:
    for line in (ROOT / "Makefile").read_text().splitlines():
        if match := re.match(r"([a-z]+):", line):
            assert " ## " in line, match[1]


def test_the_measured_commands_exist() -> None:
    text = (ROOT / "docs" / "measurements.md").read_text()
    commands = set(re.findall(r"python -m (bench\.\w+)", text))
    assert commands == {
        "bench.up",
        "bench.scale",
        "bench.start",
        "bench.mpi_start",
        "bench.jobs",
        "bench.kubernetes",
        "bench.objects",
        "bench.kubernetes_scale",
        "bench.hosts",
    }
    assert all((ROOT / f"{command.replace('.', '/')}.py").exists() for command in commands)


def test_pre_commit_runs_what_the_makefile_installs() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    assert all(hook["entry"].startswith(".venv/bin/") for hook in hooks)
