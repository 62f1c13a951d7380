"""Hooks of MkDocs, for `make docs`: pages for linked files of the repository, llms.txt, and each page as Markdown.

A link from a page to a file outside docs/ works on GitHub, but the site has no such file. The site therefore gets a page
with the content of each linked file, below repository/, and the links lead there.
"""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.nav import Navigation, Section
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parents[1]
COPIES: Final = "repository"
LINK: Final = re.compile(r"(?<=\]\()(?!\w+:|#|<)([^)#\s]+)(#[^)\s]*)?(?=\))")
LANGUAGES: Final = {".py": "python", ".yaml": "yaml", ".hcl": "hcl", ".sh": "bash", ".json": "json"}
NOT_SEARCHED: Final = "---\nsearch: {exclude: true}\n---\n\n"

_markdown: dict[str, str] = {}
"""Maps the path of a page in docs/ to the page's Markdown, with the links of the site."""
_navigation: list[Navigation] = []


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each file of the repository to which a page links, directly or through other linked Markdown files."""
    waiting = [f"docs/{file.src_uri}" for file in files.documentation_pages()]
    visited = set(waiting)
    while waiting:
        source = waiting.pop()
        for target in _find_link_targets(source):
            path = ROOT / target
            if target.startswith("docs/") or target in visited or not path.exists():
                continue
            visited.add(target)
            page = File.generated(config, f"{COPIES}/{target}.md", content=NOT_SEARCHED + _render_page(target))
            page.inclusion = InclusionLevel.NOT_IN_NAV
            files.append(page)
            if target.endswith(".md"):
                waiting.append(target)
    return files


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> Navigation:
    _navigation[:] = [nav]
    return nav


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Make links to files of the repository lead to these files' pages on the site."""
    source = _get_source_path(page.file.src_uri)
    if page.is_homepage:
        page.meta["hide"] = ["navigation"]  # the page is the only one in its section
    if not source.endswith(".md"):
        return markdown  # in the source of a program, a bracket is not a link
    text = LINK.sub(lambda link: _rewrite_link(link, page.file.src_uri, source), markdown)
    _markdown[page.file.src_uri] = text
    return text


def on_post_build(config: MkDocsConfig) -> None:
    site = Path(config.site_dir)
    for name, text in _markdown.items():
        file = site / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    lines = [f"# {config.site_name}", "", f"> {config.site_description}", *_list_llms_txt_lines(_navigation[0])]
    (site / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _list_llms_txt_lines(nav: Navigation) -> Iterator[str]:
    """Yield the lines of llms.txt: https://llmstxt.org."""
    yield from ("", "## Start", "")
    for item in nav.items:
        if isinstance(item, Section):
            yield from ("", f"## {item.title}", "")
            yield from (_format_page_link(page) for page in _list_section_pages(item))
        elif isinstance(item, Page):
            yield _format_page_link(item)


def _list_section_pages(section: Section) -> Iterator[Page]:
    for child in section.children:
        if isinstance(child, Section):
            yield from _list_section_pages(child)
        elif isinstance(child, Page):
            yield child


def _format_page_link(page: Page) -> str:
    return f"- [{page.title}]({page.file.src_uri})"


def _get_source_path(name: str) -> str:
    """Return the path in the repository of a page of the site."""
    return name.removeprefix(f"{COPIES}/").removesuffix(".md") if name.startswith(f"{COPIES}/") else f"docs/{name}"


def _find_link_targets(source: str) -> list[str]:
    """Return the paths in the repository to which a Markdown file links."""
    text = (ROOT / source).read_text(encoding="utf-8")
    return [posixpath.normpath(posixpath.join(posixpath.dirname(source), link[1])) for link in LINK.finditer(text)]


def _rewrite_link(link: re.Match[str], page: str, source: str) -> str:
    target = posixpath.normpath(posixpath.join(posixpath.dirname(source), link[1]))
    if target.startswith("docs/"):
        name = target.removeprefix("docs/")
    elif (ROOT / target).exists():
        name = f"{COPIES}/{target}.md"
    else:
        return link[0]
    fragment = link[2] or ""
    return posixpath.relpath(name, posixpath.dirname(page)) + (fragment if name.endswith(".md") else "")


def _render_page(target: str) -> str:
    """Return the Markdown of the page for a file or folder of the repository."""
    path = ROOT / target
    if path.is_dir():
        children = sorted(child for child in path.iterdir() if not child.name.startswith((".", "__")))
        return f"# {target}/\n\n" + "\n".join(f"- `{child.name}{'/' * child.is_dir()}`" for child in children) + "\n"
    text = path.read_text(encoding="utf-8")
    if target.endswith(".md"):
        return text
    language = "dockerfile" if path.name == "Dockerfile" else LANGUAGES.get(path.suffix, "text")
    return f"# {target}\n\n````{language}\n{text}````\n"
