"""Every decision in docs/adr has a number, a status, a date and a row in the index."""

import re

from tests.docs.tables import ROOT

FOLDER = ROOT / "docs" / "adr"
INDEX = (FOLDER / "README.md").read_text()
HEAD = re.compile(r"# (?P<number>\d+)\. (?P<title>.+)\n\n\*\*Status:\*\* (?P<status>.+), (?P<date>\d{4}-\d\d-\d\d)\.\n\n")
STATUS = re.compile(r"accepted|rejected|superseded by ADR \d+")
ROW = re.compile(
    r"^\| \[(?P<number>\d+)\]\((?P<file>[\w-]+\.md)\) \| (?P<title>.+) \| (?P<status>.+) \| (?P<date>[\d-]+) \|$", re.MULTILINE
)


def test_every_decision_has_a_status_a_date_and_an_index_row() -> None:
    rows = {row["file"]: row.groupdict() for row in ROW.finditer(INDEX)}
    files = sorted(FOLDER.glob("[0-9]*.md"))
    assert list(rows) == [file.name for file in files]
    for file in files:
        head = HEAD.match(file.read_text())
        assert head, f"{file.name}: begin as docs/adr/template.md does"
        assert STATUS.fullmatch(head["status"]) and int(file.name[:4]) == int(head["number"]), file.name
        assert rows[file.name] == {**head.groupdict(), "file": file.name}


def test_decision_index_explains_every_missing_number() -> None:
    numbers = [int(file.name[:4]) for file in FOLDER.glob("[0-9]*.md")]
    sentence = re.search(r"Numbers ([\d, toand]+) were reserved", " ".join(INDEX.split()))
    assert sentence
    reserved: set[int] = set()
    for first, last in re.findall(r"(\d+)(?: to (\d+))?", sentence[1]):
        reserved |= set(range(int(first), int(last or first) + 1))
    assert set(range(1, max(numbers) + 1)) - set(numbers) == reserved
