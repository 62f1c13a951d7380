"""Random hostile values, texts and documents."""

import copy
import json
from random import Random
from typing import Any, Final

VICTIM: Final = "team-b"
"""Namespace that the inputs try to reach."""
TEXTS: Final = (
    *("", "x", VICTIM, "train", "\ud800", "\x00", "../../team-b", "a/b?c=d#e", "%2F..", "Succeeded", "Failed", "Disrupted"),
    *("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2026-11-23T12:00:00", "2026-11-23T12:00:00Z", "1k", "9E"),
    *("uid-train-team-b", "train-worker-1", "team-b/pods/train-worker-1?x=", "../namespaces/team-b/pods/train", "2" * 5000),
    *("$(touch TRACE)", "`touch TRACE`", "; touch TRACE", "| touch TRACE", "${IFS}touch", "-rf", "--help", "!touch TRACE"),
    *("\x1b]52;c;aWQ=\x07", "\x1b[2J", "\x9b31m", "\u202egnp.exe", "\r\nContent-Length: 0\r\n", "<script>", "{{7*7}}", "%s%n"),
    *("arn:aws:s3:::another", "s3://another/key", "file:///etc/passwd", "http://169.254.169.254/latest/", "[bold]x[/bold]"),
)
NUMBERS: Final = (0, -1, 1, 2**31, 2**63, 10**30, 10**400, 1e308, float("nan"), float("inf"), 0.5, True, False)
NOT_JSON: Final = (
    "",
    "{",
    "null",
    "[]",
    "NaN",
    "[" * 100_000,
    '{"a":' * 5000,
    "1" * 5000,
    '"\\ud800"',
    "\x00",
    "[" + "{}," * 300_000,
)
NAMES: Final = ("train", "train-worker-0", "train-record-uid-trai", "x.y", "a" * 253, "train-files-00000000", VICTIM)
LABELS: Final = (
    "",
    "x",
    VICTIM,
    "train",
    "job",
    "worker",
    "workers",
    "launcher",
    "setup",
    "files",
    "torchrun",
    "9" * 30,
    "a" * 63,
)


def draw_text(random: Random) -> str:
    """Return one of the texts, several of them, or random characters."""
    match random.randrange(4):
        case 0:
            return "".join(
                chr(random.choice((random.randrange(32), random.randrange(128), random.randrange(0x11000))))
                for _ in range(random.randrange(12))
            )
        case 1:
            return "".join(random.choices(TEXTS[:-1], k=2))
    return random.choice(TEXTS)


def draw_value(random: Random, depth: int = 3) -> Any:
    """Return any value that JSON or YAML can contain."""
    match random.randrange(6 if depth else 3):
        case 0:
            return None
        case 1:
            return random.choice(NUMBERS)
        case 2:
            return draw_text(random)
        case 3 | 4:
            return [draw_value(random, depth - 1) for _ in range(random.randrange(4))]
    return {draw_text(random): draw_value(random, depth - 1) for _ in range(random.randrange(4))}


def corrupt_document(random: Random, document: Any) -> Any:
    """Return a copy in which one value, at any depth, is replaced, removed or added."""
    document = copy.deepcopy(document)
    parent = document
    while True:
        if not isinstance(parent, dict | list) or not parent:
            return draw_value(random)
        key = random.choice(sorted(parent, key=str) if isinstance(parent, dict) else range(len(parent)))
        if not isinstance(parent[key], dict | list) or not parent[key] or random.randrange(2):
            break
        parent = parent[key]
    match random.randrange(4):
        case 0:
            del parent[key]
        case 1 if isinstance(parent, dict):
            parent[draw_text(random)] = draw_value(random)
        case _:
            parent[key] = draw_value(random)
    return document


def draw_document_text(random: Random, document: Any) -> str:
    """Return this document as JSON, often damaged."""
    match random.randrange(8):
        case 0:
            return random.choice(NOT_JSON)
        case 1:
            return json.dumps(draw_value(random))
        case 2:
            return json.dumps(document)
        case 3:
            return corrupt_text(random, json.dumps(document))
    for _ in range(random.randrange(1, 4)):
        document = corrupt_document(random, document)
    return json.dumps(document)


def corrupt_text(random: Random, text: str) -> str:
    """Return a text with a part removed, repeated or replaced."""
    begin = random.randrange(len(text) + 1)
    end = min(len(text), begin + random.randrange(30))
    return text[:begin] + random.choice(("", text[begin:end] * 2, draw_text(random))) + text[end:]
