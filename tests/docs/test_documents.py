"""Everything that the documents name exists."""

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from cli.main import every_command
from cli.settings import OF, rows
from tests.docs.tables import ROOT, TABLES, between

DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
GENERATED = "mission.md"
"""Written by `make mission`."""
LINE_LIMIT = 120
FOLDERS = ("amis", "bench", "cli", "docs", "infra", "localcloud", "scripts", "stacks", "tests", "workloads")
NOT_YET: dict[str, str] = {
    "workloads/NAME/job.yaml": "a placeholder",
}
"""Path that does not exist -> the reason why a document may name it."""


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
        ours = line.partition(" -- ")[0]  # the rest is another program's command
        for option in re.findall(r"--[a-z-]+", ours):
            assert option in ("--help", verb) or option in known[verb], line


def missing_paths(document: Path) -> list[str]:
    """Return the links and the paths in backticks that do not exist."""
    text = document.read_text()
    links = [document.parent / target for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text) if not target.startswith("http")]
    named = [ROOT / path for path in re.findall(rf"`((?:{'|'.join(FOLDERS)})/[\w/.*-]*\w)/?`", text)]
    absent = [path for path in (*links, *named) if not next(iter(path.parent.glob(path.name)), None)]
    return sorted({os.path.relpath(path, ROOT) for path in absent} - set(NOT_YET))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_and_path_in_a_document_exists(document: Path) -> None:
    assert missing_paths(document) == []


def test_every_path_that_is_exempt_is_still_missing() -> None:
    """Remove an entry from NOT_YET once its path exists."""
    assert [path for path in NOT_YET if (ROOT / path).exists()] == []


def test_a_path_that_does_not_exist_is_found(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text("See `infra/nowhere.py`, `infra/plan/`, `infra/program.py` and [a page](gone.md#part).")
    assert missing_paths(document) == sorted(["infra/nowhere.py", os.path.relpath(tmp_path / "gone.md", ROOT)])


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_to_a_heading_leads_to_one(document: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#]*\.md|)#([^)]+)\)", document.read_text()):
        page = (document.parent / target) if target else document
        headings = re.findall(r"^#+ (.+)", page.read_text(), re.MULTILINE)
        anchors = {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}
        assert anchor in anchors, f"{target}#{anchor}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_lines_of_documents_stay_within_the_limit(document: Path) -> None:
    """Tables and generated lists may be longer."""
    if document.name != GENERATED:
        text = re.sub(r"<!-- begin of .*?<!-- end of ", "", document.read_text(), flags=re.DOTALL)
        assert [line for line in text.splitlines() if len(line) > LINE_LIMIT and not line.startswith("|")] == []


def test_the_readme_stays_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) < 120


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_setting_that_is_named_by_its_path_exists(document: Path) -> None:
    known = {re.sub(r"\[\d*\]", "", row.path) for model in OF.values() for row in rows(model)}
    known |= {path.rpartition(".")[0] for path in known}
    for path in re.findall(r"[`:']((?:target|network|storage|pools|platform)(?:\[\d*\])?(?:\.\w+)+)", document.read_text()):
        assert re.sub(r"\[\d*\]", "", path) in known, path


OPERATIONS = (
    *("Create the first cluster", "Submit a job", "Watch it", "Scale", "Use a reservation", "Rotate and upgrade"),
    *("Troubleshooting", "Destroy", "Cost hygiene"),
)


def test_operations_are_described_by_task() -> None:
    text = (ROOT / "docs" / "operations.md").read_text()
    assert re.findall(r"^## (.+)", text, re.MULTILINE)[: len(OPERATIONS)] == list(OPERATIONS)


def test_the_configuration_page_names_every_stack() -> None:
    text = (ROOT / "docs" / "configuration.md").read_text()
    named = set(re.findall(r"^\| `([\w-]+)` \| ", text.split("| stack | shows |")[1].split("\n\n")[0], re.MULTILINE))
    assert named == {file.name.removeprefix("Pulumi.").removesuffix(".yaml") for file in (ROOT / "stacks").glob("Pulumi.*.yaml")}


def test_contributing_shows_every_folder_of_the_top_level_and_of_infra() -> None:
    layout = CONTRIBUTING.split("## Import arrows")[0]
    for tree, indent in (("HEAD", ""), ("HEAD:infra", "  ")):
        listed = subprocess.run(
            ["git", "ls-tree", "-d", "--name-only", tree], cwd=ROOT, capture_output=True, text=True, check=True
        )
        for folder in listed.stdout.split():
            assert folder.startswith(".") or re.search(rf"^{indent}{folder}/ ", layout, re.MULTILINE), folder


def test_contributing_says_what_every_folder_of_tests_proves() -> None:
    folders = {f"tests/{file.parent.name}" for file in (ROOT / "tests").glob("*/test_*.py")}
    assert set(re.findall(r"^\| [\w ]+ \| `(tests/\w+)` \| ", CONTRIBUTING, re.MULTILINE)) == folders


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
