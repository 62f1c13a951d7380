"""Names say what a value is: in each package, at most 1% of the assigned names are words as vague as `found` or `it`."""

import ast
import subprocess
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
WORDS = {"found", "one", "wanted", "made", "known", "given", "held", "mine", "kept", "seen", "told", "others", "them", "it"}
LIMIT = 1.0


def list_assigned_names(file: Path) -> list[str]:
    """Return the names of variables, fields and parameters that a file assigns."""
    nodes = list(ast.walk(ast.parse(file.read_text())))
    variables = [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    return variables + [node.arg for node in nodes if isinstance(node, ast.arg)]


def compute_percentages() -> dict[str, float]:
    """Return a mapping from packages to the percentage of assigned names that are listed words. A package is a folder
    at one of the first two levels."""
    listed = subprocess.run(["git", "ls-files", "-z", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    totals: Counter[str] = Counter()
    words: Counter[str] = Counter()
    for path in filter(None, listed.split("\0")):
        if (ROOT / path).exists():
            package = "/".join(Path(path).parts[:-1][:2]) or "."
            names = list_assigned_names(ROOT / path)
            totals[package] += len(names)
            words[package] += sum(name in WORDS for name in names)
    return {package: round(100 * words[package] / total, 1) for package, total in totals.items() if total}


def test_vague_identifiers_stay_rare_in_every_package() -> None:
    actual = compute_percentages()
    above = {package: share for package, share in actual.items() if share > LIMIT}
    assert above == {}, "rename these values by what they hold: path, price_per_hour, missing_zones"
