"""Paths, links, commands and settings in the documents exist."""

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from cli.main import list_commands
from cli.stacks.settings import OF, list_settings
from testkit import iam_policies
from tests.docs import policies
from tests.docs.tables import ROOT, TABLES, find_between_markers

PAGES = sorted(page.relative_to(ROOT).as_posix() for page in (ROOT / "docs").rglob("*.md"))
CURRENT = ["README.md", "CONTRIBUTING.md", "SECURITY.md", *PAGES]
DOCUMENTS = [*CURRENT, "CHANGELOG.md"]
"""The change log also names what has been removed."""
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
GENERATED = ("docs/measurements/mission.md", "docs/measurements/plots.md", "docs/runbooks/")
"""Pages and folders that a program writes."""
TABLE = re.compile(r"<!-- begin of .*?<!-- end of ", re.DOTALL)
"""A generated table in a page."""
LINE_LIMIT = 120
WORD_LIMIT = 2500
README_LINES = 100
FOLDERS = ("amis", "bench", "cli", "docs", "images", "infra", "localcloud", "scripts", "stacks", "tests", "workloads")
GROUPS = ("capacity", "image", "local")
"""Verbs that have subcommands."""


def read_command_options() -> dict[str, set[str]]:
    """Return the options of each command, keyed by command (`validate`, `local start`, ...)."""
    options_by_command: dict[str, set[str]] = {}
    for name, command in list_commands():
        options = (parameter.opts + parameter.secondary_opts for parameter in command.params)
        options_by_command[name] = {option for each in options for option in each}
    return options_by_command


@pytest.mark.parametrize("name", policies.generate_policies())
def test_a_policy_generated_from_the_inventory_is_up_to_date(name: str) -> None:
    text = (iam_policies.FOLDER / f"{name}.json").read_text()
    assert text == policies.render_policy(name), "update it with: python -m tests.docs.tables"


@pytest.mark.parametrize(("name", "begin", "end", "render"), TABLES, ids=lambda value: value if isinstance(value, str) else "")
def test_a_table_generated_from_the_code_is_up_to_date(name: str, begin: str, end: str, render: Callable[[], str]) -> None:
    text = (ROOT / name).read_text()
    start, stop = find_between_markers(text, begin, end)
    assert text[start:stop] == render(), "update it with: python -m tests.docs.tables"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_cluster_command_in_a_document_exists(document: str) -> None:
    options_by_command = read_command_options()
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    text = (ROOT / document).read_text()
    for target in re.findall(r"(?:^|`)make ([a-z0-9-]+)", text, re.MULTILINE):
        assert target in targets, f"make {target}"
    for line in re.findall(r"scripts/cluster ([^`\n|)]+)", text):
        words = line.split()
        verb = " ".join(words[:2]) if words[0] in GROUPS and len(words) > 1 else words[0]
        assert verb.rstrip(",;:.") in {*options_by_command, *GROUPS, "...", "--help", "--version", "--install-completion"}, line
        ours = line.partition(" -- ")[0]  # the part after `--` is another program's command
        for option in re.findall(r"--[a-z-]+", ours):
            assert option in ("--help", verb) or option in options_by_command[verb], line


def find_missing_paths(document: Path) -> list[str]:
    """Return the targets of links, and the paths in backticks, that do not exist."""
    text = document.read_text()
    links = [document.parent / target for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text) if not target.startswith("http")]
    named = [ROOT / path for path in re.findall(rf"`((?:{'|'.join(FOLDERS)})/[\w/.*-]*\w)/?`", text)]
    absent = [path for path in (*links, *named) if not next(iter(path.parent.glob(path.name)), None)]
    return sorted({os.path.relpath(path, ROOT) for path in absent})


@pytest.mark.parametrize("document", CURRENT)
def test_every_link_and_path_in_a_document_exists(document: str) -> None:
    assert find_missing_paths(ROOT / document) == []


def test_a_missing_path_in_a_document_is_detected(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text("See `infra/nowhere.py`, `infra/plan/`, `infra/program.py` and [a page](gone.md#part).")
    assert find_missing_paths(document) == sorted(["infra/nowhere.py", os.path.relpath(tmp_path / "gone.md", ROOT)])


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_link_to_a_heading_has_a_target(document: str) -> None:
    file = ROOT / document
    for target, anchor in re.findall(r"\]\(([^)#]*\.md|)#([^)]+)\)", file.read_text()):
        page = (file.parent / target) if target else file
        headings = re.findall(r"^#+ (.+)", page.read_text(), re.MULTILINE)
        anchors = {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}
        assert anchor in anchors, f"{target}#{anchor}"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_pages_have_short_lines_and_few_words(document: str) -> None:
    """Tables may have longer lines. Split a page that is too long."""
    text = TABLE.sub("", (ROOT / document).read_text())
    if not document.startswith(GENERATED):
        assert [line for line in text.splitlines() if len(line) > LINE_LIMIT and not line.startswith("|")] == []
        assert len(text.split()) <= WORD_LIMIT


@pytest.mark.parametrize("document", DOCUMENTS)
def test_nested_markdown_blocks_are_indented_by_four_spaces(document: str) -> None:
    """GitHub accepts an indent of two spaces, but Python-Markdown, which renders the site, ends the list there."""
    text = re.sub(r"^```.*?^```$", "", (ROOT / document).read_text(), flags=re.DOTALL | re.MULTILINE)
    nested = re.findall(r"^ {1,3}(?:[-*] |\d+\. |```).*", text, re.MULTILINE)
    assert nested == []


def test_the_readme_stays_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) < README_LINES


@pytest.mark.parametrize("document", CURRENT)
def test_every_setting_path_in_a_document_exists(document: str) -> None:
    setting_paths = {re.sub(r"\[\d*\]", "", row.path) for model in OF.values() for row in list_settings(model)}
    setting_paths |= {path.rpartition(".")[0] for path in setting_paths}
    for path in re.findall(
        r"[`:']((?:target|network|storage|pools|platform)(?:\[\d*\])?(?:\.\w+)+)", (ROOT / document).read_text()
    ):
        assert re.sub(r"\[\d*\]", "", path) in setting_paths, path


def test_the_settings_page_names_every_stack() -> None:
    text = (ROOT / "docs" / "reference" / "settings.md").read_text()
    named = set(re.findall(r"^\| `([\w-]+)` \| ", text.split("| stack | shows |")[1].split("\n\n")[0], re.MULTILINE))
    assert named == {file.name.removeprefix("Pulumi.").removesuffix(".yaml") for file in (ROOT / "stacks").glob("Pulumi.*.yaml")}


def test_contributing_lists_every_top_level_folder_and_every_folder_of_infra() -> None:
    layout = CONTRIBUTING.split("## Import rules")[0]
    for tree, indent in (("HEAD", ""), ("HEAD:infra", "  ")):
        listed = subprocess.run(
            ["git", "ls-tree", "-d", "--name-only", tree], cwd=ROOT, capture_output=True, text=True, check=True
        )
        for folder in listed.stdout.split():
            assert folder.startswith(".") or re.search(rf"^{indent}{folder}/ ", layout, re.MULTILINE), folder


def test_contributing_describes_every_test_folder() -> None:
    folders = {f"tests/{file.parent.name}" for file in (ROOT / "tests").glob("*/test_*.py")}
    assert set(re.findall(r"^\| [\w ]+ \| `(tests/\w+)` \| ", CONTRIBUTING, re.MULTILINE)) == folders


def test_no_file_contains_a_path_of_the_development_machine() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    own = re.compile(
        rf"{re.escape(str(ROOT))}\b|(?<![\w.])/(?:root|work)/|^--(?:index-url|extra-index-url|find-links)", re.MULTILINE
    )
    for name in filter(None, listed):
        if (ROOT / name).is_file() and (match := own.search((ROOT / name).read_text(errors="ignore"))):
            assert name == "tests/docs/test_documents.py", f"{name}: {match[0]}"


def test_every_make_target_has_a_description() -> None:
    for line in (ROOT / "Makefile").read_text().splitlines():
        if match := re.match(r"([a-z]+):", line):
            assert " ## " in line, match[1]


def test_the_measurements_page_names_every_benchmark() -> None:
    text = "".join(page.read_text() for page in (ROOT / "docs" / "measurements").glob("*.md"))
    modules = {path.stem for path in (ROOT / "bench").glob("*.py") if "__main__" in path.read_text()}
    modules |= {path.parent.name for path in (ROOT / "bench").glob("*/__main__.py")}
    assert set(re.findall(r"python -m bench\.(\w+)", text)) == modules


def test_pre_commit_runs_the_tools_that_the_makefile_installs() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    assert all(hook["entry"].startswith(".venv/bin/") for hook in hooks)
