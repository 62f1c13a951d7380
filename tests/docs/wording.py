"""Phrases that are never right in technical English, and where they occur. `python -m tests.docs.wording` counts them.

Only phrases without a legitimate meaning belong here. A reader judges the rest: `python -m tests.docs.sample_sentences`.
"""

import re
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]

CHECKED: Final = (
    *("README.md", "CONTRIBUTING.md", "Makefile", "Pulumi.yaml", "amis", "bench", "cli", "docs", "infra", "localcloud"),
    *("scripts", "stacks", "testkit", "tests", "workloads"),
)
"""Files and folders without any of the phrases."""

SUFFIXES: Final = (".py", ".md", ".yaml", ".yml", ".sh", ".hcl", ".toml", ".go")
NAMES: Final = ("Makefile", "Dockerfile.job", "run", "cluster")
SKIPPED: Final[Mapping[str, str]] = {
    "tests/docs/wording.py": "lists the phrases",
    "tests/docs/test_wording.py": "shows that they are found",
    "docs/mission.md": "written by `make mission`; its words are in tests/mission",
    "docs/plots.md": "written by `python -m bench.figures`; its words are in bench/figures.py",
    "tests/golden/": "user data, manifests and URNs as users' stacks have them",
    "infra/jobs/in_pods/": "scripts in the manifests of users' jobs: a changed comment would run the stack's jobs again",
}
"""File or folder -> why it is not checked."""

PHRASES: Final[Mapping[str, str]] = {
    "boot text": "user data",
    "metadata of version": "IMDSv2",
    "way out": "egress, route to the internet; of a problem: fix",
    "ways out": "egress, routes to the internet; fixes",
    "way in": "ingress, access",
    "ways in": "ingress, access",
    "way into": "ingress, access",
    "closed network": "private cluster, air-gapped VPC",
    "least nodes": "minimum size",
    "most nodes": "maximum size",
    "made anew": "recreated",
    "anew": "again, re-",
    "for ever": "forever",
    "people who log in": "SSH users",
    "its own word": "status reported by",
    "its word": "status reported by",
    "aws's word": "status reported by AWS",
    "aws's own words": "the reason reported by AWS",
    "engine run": "Pulumi operation",
    "engine runs": "Pulumi operations",
    "life of a stack": "lifecycle",
    "life of a cluster": "lifecycle",
    "plain ec2": "EC2 cluster (without Kubernetes)",
    "says so": "prints, logs, reports an error",
    "say so": "print, log, report an error",
    "said so": "printed, logged, reported an error",
    "it is said": "it prints, logs, reports",
    "is told": "gets, is configured to, reads",
    "are told": "get, are configured to, read",
    "was told": "got, was configured to, read",
    "were told": "got, were configured to, read",
    "been told": "got, been configured to",
    "cannot be asked": "could not be queried",
    "could not be asked": "could not be queried",
    "comes alive": "starts",
    "come alive": "start",
    "somebody": "name the actor: a user, a client, a process",
    "whoever": "anyone who, every client that",
    "by whom": "name the actor",
    "of whom": "name the actor",
    "of which": "a second sentence",
    "the former": "repeat the noun",
    "the latter": "repeat the noun",
    "what is to": "what should, what must",
    "colour": "color",
    "flavour": "flavor",
    "behaviour": "behavior",
    "recognise": "recognize",
    "recognised": "recognized",
    "labelled": "labeled",
    "neighbour": "neighbor",
    "favour": "favor",
    "honour": "honor",
    "serialise": "serialize",
    "initialise": "initialize",
    "normalise": "normalize",
}
"""Phrase -> what to write instead. Identifiers count too: `boot text` also finds `boot_text` and `BootText`."""

EXEMPT: Final[Mapping[str, str]] = {
    "06-closed-network": "name of a stack file: part of the names of its users' resources",
    "-flavour": "end of a Kueue object's name in users' state",
    "the engine runs it": "a verb here, not a Pulumi operation",
    "kubelet that starts anew": "Go source of a cached build",
    "kubelet started anew": "Go source of a cached build",
}
"""Name fixed by others or recorded in users' state -> why it cannot be changed."""

GENERATED: Final = re.compile(r"<!-- begin of .*?<!-- end of ", re.DOTALL)
"""A table in a document that is made from the code, where its words are checked."""
WORD: Final = re.compile(r"[A-Z]?[a-z]+[0-9]*(?:'s)?|[A-Z]+[0-9]*(?:'s)?")
"""A word of a sentence or of an identifier: `boot_text` and `BootText` have two."""
GAP: Final = re.compile(r"(?:[\s_#-]|\"\s*\n\s*f?\")*")
"""What may be between two words of a phrase, also at the end of a line of a comment or of a joined string."""


@dataclass(frozen=True)
class Hit:
    path: str
    line: int
    phrase: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.phrase!r}; write: {PHRASES[self.phrase]}"


def _by_first_word() -> dict[str, list[tuple[str, ...]]]:
    """First word -> phrases, the longest first."""
    found: dict[str, list[tuple[str, ...]]] = {}
    for phrase in sorted(PHRASES, key=lambda one: -len(one.split())):
        words = tuple(phrase.split())
        found.setdefault(words[0], []).append(words)
    return found


_FIRST: Final = _by_first_word()


def hits(path: str, text: str) -> Iterator[Hit]:
    """Find the phrases in a file's text."""
    for exempt in EXEMPT:
        text = text.replace(exempt, "-" * len(exempt))
    if path.endswith(".md"):
        text = GENERATED.sub(lambda table: "\n" * table[0].count("\n"), text)
    words = [(match[0].lower(), match.start(), match.end()) for match in WORD.finditer(text)]
    free = 0  # the end of the last hit
    for index, (first, start, _) in enumerate(words):
        if start < free:
            continue
        for phrase in _FIRST.get(first, ()):
            part = words[index : index + len(phrase)]
            gaps = (text[one[2] : other[1]] for one, other in pairwise(part))
            if tuple(word for word, _, _ in part) == phrase and all(GAP.fullmatch(gap) for gap in gaps):
                yield Hit(path, text.count("\n", 0, start) + 1, " ".join(phrase))
                free = part[-1][2]
                break


def tracked_names() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in listed.split("\0") if name]


def tracked() -> list[str]:
    """Return the repository's hand-written text files."""
    return [
        name
        for name in tracked_names()
        if (name.endswith(SUFFIXES) or Path(name).name in NAMES)
        and not name.startswith(tuple(SKIPPED))
        and (ROOT / name).is_file()
        and not (ROOT / name).is_symlink()
    ]


def in_tree(folders: tuple[str, ...] | None = None) -> Iterator[Hit]:
    """Hits below the folders, or everywhere."""
    for name in tracked():
        if folders is None or any(name == one or name.startswith(f"{one}/") for one in folders):
            yield from hits(name, (ROOT / name).read_text(encoding="utf-8"))


def main() -> None:
    found = list(in_tree())
    for title, counted in (
        ("folder", Counter(hit.path.partition("/")[0] for hit in found)),
        ("phrase", Counter(hit.phrase for hit in found)),
    ):
        print(f"{title}:")
        for name, number in counted.most_common():
            print(f"  {number:5} {name}")


if __name__ == "__main__":
    main()
