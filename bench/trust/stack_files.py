"""Surface: stack files of strangers -> the parser and the rules that need no AWS."""

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

import yaml

from bench.trust.inputs import corrupt_document, corrupt_text, draw_text, draw_value
from bench.trust.judge import Judge
from infra import preflight
from infra.config import stack_file
from localcloud.processes import ROOT

HOSTILE_YAML: Final = (
    *("!!python/object/apply:os.system ['touch TRACE']", "!!python/name:os.system", "&a [*a, *a]", "<<: *x", "a: &x {<<: *x}"),
    *(
        "%TAG ! tag:yaml.org,2002:python/",
        "--- a\n--- b",
        "\t",
        "? [a, b]: c",
        "[" * 300,
        "- " * 200,
        "{" * 300,
        "1_0: 0b1",
        "=: =",
    ),
)
BOMB: Final = "config:\n  gpumpi:a: &a [x, x]\n" + "".join(
    f"  gpumpi:{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)
"""Aliases that expand to 9^8 values."""


def load_stacks() -> list[str]:
    return [path.read_text(encoding="utf-8") for path in sorted((ROOT / "stacks").glob("Pulumi.*.yaml"))]


def draw_stack(random: Random, texts: list[str], documents: list[Any]) -> bytes:
    """Return a stack file from a stranger."""
    match random.randrange(8):
        case 0:
            return random.choice((BOMB, *HOSTILE_YAML)).encode()
        case 1:
            text = random.choice(texts)
            line = random.choice(text.splitlines())
            return text.replace(line, f"{line[: len(line) - len(line.lstrip())]}x: {random.choice(HOSTILE_YAML)}", 1).encode()
        case 2 | 3:
            return corrupt_text(random, random.choice(texts)).encode(errors="surrogatepass")
    document = random.choice(documents)
    for _ in range(random.randrange(1, 4)):
        document = corrupt_document(random, document)
    if isinstance(document, dict) and isinstance(document.get("config"), dict) and random.randrange(4) == 0:
        document["config"][f"gpumpi:{draw_text(random)}"] = draw_value(random)
    try:
        return yaml.safe_dump(document, allow_unicode=True).encode(errors="surrogatepass")
    except (yaml.YAMLError, UnicodeError):
        return repr(document).encode(errors="surrogatepass")


def try_stack_files(judge: Judge, random: Random, count: int) -> None:
    texts = load_stacks()
    documents = [yaml.safe_load(text) for text in texts]
    with TemporaryDirectory() as text:
        path, trace = Path(text) / "Pulumi.test.yaml", Path("TRACE")
        for _ in range(count):
            path.write_bytes(draw_stack(random, texts, documents))
            with judge.attempt():
                raw = stack_file.read_stack_file(path)
                parsed = preflight.parse_aws_stack(raw)
                lines = [str(problem) for problem in (*raw.problems, *parsed.problems)]
                judge.require(all(lines), "lost", "a problem without a sentence")
            if trace.exists():
                judge.report("executed", path.read_bytes().decode(errors="replace"))
                trace.unlink()
