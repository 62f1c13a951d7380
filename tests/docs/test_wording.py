"""No text in this repository uses a rejected phrase."""

import re

import pytest

from tests.docs import wording
from tests.docs.wording import CHECKED, EXEMPT, PHRASES, ROOT, SKIPPED


@pytest.mark.parametrize("folder", CHECKED)
def test_no_file_contains_a_rejected_phrase(folder: str) -> None:
    assert [str(hit) for hit in wording.find_hits_in_folders((folder,))] == []


def find_phrases(path: str, text: str) -> list[tuple[int, str]]:
    return [(hit.line, hit.phrase) for hit in wording.find_phrase_hits(path, text)]


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("The instance reads its boot text.", "boot text"),
        ("first\n# The cluster is made\n# anew by `up`.", "made anew"),
        ("\n".join(["", 'message = ("there is no way "', '           "out of it")']), "way out"),
        ("\ndef way_out(self) -> str: ...", "way out"),
        ("\nclass BootText: ...", "boot text"),
        ("\nAWS's word alone counts.", "aws's word"),
    ],
)
def test_rejected_phrases_are_found_in_prose_comments_strings_and_identifiers(text: str, phrase: str) -> None:
    line = 1 if text.startswith("The") else 2
    assert find_phrases("cli/any.py", text) == [(line, phrase)]


@pytest.mark.parametrize(
    "text", ["He is always outside.", "one way; out of ten", "forever", "stacks/Pulumi.06-closed-network.yaml"]
)
def test_text_without_rejected_phrases_passes(text: str) -> None:
    assert find_phrases("docs/any.md", text) == []


def test_generated_tables_are_checked_only_at_their_source() -> None:
    page = "<!-- begin of the table -->\n| `minSize` | Least nodes. |\n<!-- end of the table -->\n\nLeast nodes."
    assert find_phrases("docs/any.md", page) == [(5, "least nodes")]


def test_every_rejected_phrase_is_lower_case_and_has_an_alternative() -> None:
    assert [phrase for phrase in PHRASES if not re.fullmatch(r"[a-z0-9' ]+", phrase) or not PHRASES[phrase]] == []
    assert [phrase for phrase in PHRASES if find_phrases("cli/any.py", phrase) != [(1, phrase)]] == []


def test_every_wording_exemption_is_needed() -> None:
    names = wording.list_tracked_files()
    assert [path for path in SKIPPED if not any(name.startswith(path) for name in names)] == []
    texts = [(ROOT / name).read_text(encoding="utf-8") for name in wording.list_text_files()]
    assert [text for text in EXEMPT if not any(text in file_text for file_text in texts)] == []
