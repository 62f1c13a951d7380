"""Sample sentences from this repository for a reader to judge: would an SRE write them this way?

`python -m tests.docs.sample_sentences [SEED] [--count 100] [--json]`; the default seed is the hash of the current commit.
Sentences come from docstrings, comments, messages (strings of at least `MESSAGE_WORDS` words) and documents. All
sentences are equally likely.
"""

import argparse
import ast
import functools
import inspect
import io
import json
import random
import re
import subprocess
import tokenize
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal

ROOT: Final = Path(__file__).parents[2]
COUNT: Final = 100
SENTENCE_WORDS: Final = 4
MESSAGE_WORDS: Final = 5
GENERATED: Final = (
    *("docs/measurements/mission.md", "docs/measurements/plots.md", "docs/measurements/figures/", "docs/pictures/"),
    *("docs/runbooks/", "tests/golden/"),
)
COMMENTED: Final = (".sh", ".hcl", ".yaml", ".yml", ".toml")
COMMENTED_NAMES: Final = ("Makefile", "Dockerfile", ".ci/run")

Kind = Literal["docstring", "comment", "message", "document"]


@dataclass(frozen=True, order=True)
class Sentence:
    path: str
    line: int
    kind: Kind
    text: str


END: Final = re.compile(r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)\s+(?=[A-Z`\"'(\[])|\n\s*\n|\Z")
EXAMPLE: Final = re.compile(r"^(?:\s{4,}\S|>>> ).*$", re.MULTILINE)
URL: Final = re.compile(r"https?://\S+")


def split_sentences(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line offset and text of each sentence; skip text of fewer than `SENTENCE_WORDS` words."""
    begin = 0
    for end in END.finditer(text):
        sentence = text[begin : end.start()]
        flat = re.sub(r"\s+", " ", sentence).strip()
        if len(re.findall(r"[A-Za-z][a-z']*", URL.sub("", flat))) >= SENTENCE_WORDS:
            leading = len(sentence) - len(sentence.lstrip())
            yield text.count("\n", 0, begin + leading), flat
        begin = end.end()


def extract_from_prose(path: str, line: int, kind: Kind, text: str) -> Iterator[Sentence]:
    """Yield the sentences of a docstring, comment or document; skip indented examples."""
    for offset, sentence in split_sentences(EXAMPLE.sub("", text)):
        yield Sentence(path, line + offset, kind, sentence)


def extract_from_python(path: str, source: str) -> Iterator[Sentence]:
    tree = ast.parse(source)
    documented: set[int] = set()
    for node in ast.walk(tree):
        for statement in getattr(node, "body", None) or () if not isinstance(node, ast.Lambda | ast.IfExp) else ():
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                documented.add(id(statement.value))
                if isinstance(statement.value.value, str):
                    yield from extract_from_prose(path, statement.lineno, "docstring", inspect.cleandoc(statement.value.value))
    yield from _extract_messages(path, tree, documented)
    yield from _extract_from_comments(path, _read_python_comments(source))


def _extract_messages(path: str, tree: ast.AST, skipped_ids: set[int]) -> Iterator[Sentence]:
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped_ids |= {id(part) for part in ast.walk(node) if isinstance(part, ast.Constant)}
            pieces = (part.value if isinstance(part, ast.Constant) else f"{{{_render_expression(part)}}}" for part in node.values)
            yield from _extract_message(path, node.lineno, "".join(str(piece) for piece in pieces))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped_ids:
            yield from _extract_message(path, node.lineno, node.value)


def _render_expression(part: ast.expr) -> str:
    return ast.unparse(part.value if isinstance(part, ast.FormattedValue) else part)


def _extract_message(path: str, line: int, text: str) -> Iterator[Sentence]:
    """Yield the sentences of a one-line string that consists mostly of words; skip code, patterns and file contents."""
    words = text.split()
    plain = [word for word in words if re.fullmatch(r"[\"'`(]*[A-Za-z][A-Za-z'’-]*[\"'`).,;:!?]*", word)]
    if "\n" not in text.strip() and len(plain) >= MESSAGE_WORDS and len(plain) >= 0.7 * len(words):
        for _, sentence in split_sentences(text):
            yield Sentence(path, line, "message", sentence)


def _read_python_comments(source: str) -> list[tuple[int, str]]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return [(token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT]


def _extract_from_comments(path: str, comments: list[tuple[int, str]]) -> Iterator[Sentence]:
    """Join comments on consecutive lines into one text, and yield its sentences."""
    text, begin, last = "", 0, -1
    for line, comment in [*comments, (1 << 30, "#")]:
        if line != last + 1:
            yield from extract_from_prose(path, begin, "comment", text)
            text, begin = "", line
        text += re.sub(r"^#+!?\s?", "", comment) + "\n"
        last = line


def extract_from_config(path: str, source: str) -> Iterator[Sentence]:
    """Yield sentences from the comments in shell scripts, YAML, HCL, TOML and makefiles."""
    lines = source.splitlines()
    comments = [(number, match[1]) for number, line in enumerate(lines, 1) if (match := re.search(r"(?:^|\s)(#+ .*)$", line))]
    yield from _extract_from_comments(path, comments)


def extract_from_markdown(path: str, source: str) -> Iterator[Sentence]:
    """Yield sentences from paragraphs, list items and table cells; skip code, headings and generated tables."""

    def blank_out_match(match: re.Match[str]) -> str:
        return "\n" * match[0].count("\n")

    for pattern in (r"^```.*?^```", r"<!-- begin of .*?<!-- end of [^>]*-->"):
        source = re.sub(pattern, blank_out_match, source, flags=re.DOTALL | re.MULTILINE)
    paragraph, begin = "", 0
    for number, line in enumerate([*source.splitlines(), ""], 1):
        is_item = bool(re.match(r"\s*(?:[-*]|\d+\.)\s", line))
        if not line.strip() or is_item or line.startswith(("|", "#", "!")):
            yield from extract_from_prose(path, begin, "document", paragraph)
            paragraph, begin = "", number
        if line.startswith("|") and not re.fullmatch(r"[|\s:-]+", line):
            for cell in re.split(r"(?<!\\)\|", line):
                yield from extract_from_prose(path, number, "document", cell.strip())
        elif not line.startswith(("#", "!", "|", "    ")):
            begin = begin if paragraph else number
            paragraph += re.sub(r"^\s*(?:[-*]|\d+\.)\s+", "", line).strip() + "\n"
    yield from extract_from_prose(path, begin, "document", paragraph)


def extract_sentences(path: str, source: str) -> Iterator[Sentence]:
    if path.endswith(".py"):
        yield from extract_from_python(path, source)
    elif path.endswith(".md"):
        yield from extract_from_markdown(path, source)
    elif path.endswith(COMMENTED) or path.endswith(COMMENTED_NAMES):
        yield from extract_from_config(path, source)


@functools.cache
def read_all_sentences() -> list[Sentence]:
    """Return the sentences of all tracked files, in sorted order."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    names = [name for name in listed.split("\0") if name and not name.startswith(GENERATED)]
    files = [(name, ROOT / name) for name in names if (ROOT / name).is_file() and not (ROOT / name).is_symlink()]
    return sorted(
        {
            sentence
            for name, file in files
            for sentence in extract_sentences(name, file.read_text(encoding="utf-8", errors="ignore"))
        }
    )


def draw_sentences(seed: str, count: int = COUNT) -> list[Sentence]:
    """Draw distinct sentences, all equally likely."""
    sentences = read_all_sentences()
    return random.Random(seed).sample(sentences, min(count, len(sentences)))


def read_commit_hash() -> str:
    return subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.docs.sample_sentences", description=__doc__)
    parser.add_argument("seed", nargs="?", help="any text (default: the current commit's hash)")
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    arguments = parser.parse_args()
    seed = arguments.seed or read_commit_hash()
    drawn = draw_sentences(seed, arguments.count)
    if arguments.json:
        print(json.dumps({"seed": seed, "sentences": [asdict(sentence) for sentence in drawn]}, indent=1, ensure_ascii=False))
        return
    print(f"seed {seed}\n")
    for number, sentence in enumerate(drawn, 1):
        print(f"{number:3}. {sentence.path}:{sentence.line} ({sentence.kind})\n     {sentence.text}")


if __name__ == "__main__":
    main()
