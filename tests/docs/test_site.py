"""The documentation builds as a site without warnings, loads nothing from elsewhere, and has each page as Markdown."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.tables import ROOT

EXTERNAL = re.compile(
    r"<(?:script|img|iframe|source)[^>]*\ssrc=\"?(?:https?:)?//|<link[^>]*\srel=\"?(?:stylesheet|preload|preconnect|icon)\"?[^>]*//"
)


def build_site(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder), *options]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment)


@pytest.fixture(scope="module")
def site_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    built = build_site(folder)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def test_the_site_has_every_page_as_html_and_as_markdown(site_folder: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT / "docs")
        html = name.parent / "index.html" if name.name == "README.md" else name.with_suffix("") / "index.html"
        assert (site_folder / html).is_file() and (site_folder / name).is_file(), name


def test_llms_txt_lists_the_pages_of_the_site(site_folder: Path) -> None:
    names = re.findall(r"^- \[.+\]\((.+)\)$", (site_folder / "llms.txt").read_text(), re.MULTILINE)
    assert {"README.md", "guides/jobs.md", "reference/settings.md", "runbooks/README.md"} <= set(names)
    assert [name for name in names if not (site_folder / name).is_file()] == []


def test_a_link_to_a_repository_file_leads_to_its_page(site_folder: Path) -> None:
    text = (site_folder / "guides" / "jobs.md").read_text()
    (link,) = set(re.findall(r"\]\((\S*/stacks/jobs/mnist\.yaml\.md)\)", text))
    assert (site_folder / "guides" / link).resolve().relative_to(site_folder).as_posix() == "repository/stacks/jobs/mnist.yaml.md"
    assert "pool: train" in re.sub("<[^>]+>", "", (site_folder / "repository/stacks/jobs/mnist.yaml/index.html").read_text())


def test_a_page_loads_nothing_from_other_servers(site_folder: Path) -> None:
    pages = list(site_folder.rglob("*.html"))
    assert len(pages) > 100
    assert [page.relative_to(site_folder).as_posix() for page in pages if EXTERNAL.search(page.read_text())] == []


@pytest.mark.parametrize(
    "html", ['<script src="https://cdn.example.com/a.js">', '<link rel="stylesheet" href="//fonts.example.com">']
)
def test_an_external_resource_is_detected(html: str) -> None:
    assert EXTERNAL.search(html)


def test_a_broken_link_fails_the_build(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "README.md").write_text("# Page\n\n[gone](gone.md)\n")
    (tmp_path / "mkdocs.yml").write_text(f"INHERIT: {ROOT}/mkdocs.yml\ndocs_dir: {docs}\nnav: [README.md]\nhooks: []\n")
    built = build_site(tmp_path / "site", "--config-file", str(tmp_path / "mkdocs.yml"))
    assert built.returncode != 0 and "gone.md" in built.stdout + built.stderr
