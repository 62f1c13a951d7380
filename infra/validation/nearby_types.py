"""Suggest replacements for an instance type that a Region does not offer."""

import re
from collections.abc import Collection

from infra.config.messages import nearest

_SIZES = ("nano", "micro", "small", "medium", "large", "xlarge")
_NAME = re.compile(rf"([a-z]+)([0-9]+)([a-z0-9-]*)\.(metal|{'|'.join(_SIZES)}|[0-9]+xlarge)")
MOST = 3


def similar_types(name: str, choices: Collection[str]) -> list[str]:
    """Return up to three types of the Region: the closest types of the same family, or types with similar names if
    there are none."""
    wanted = _NAME.fullmatch(name)
    family = [other for choice in choices if (other := _NAME.fullmatch(choice)) and wanted and other[1] == wanted[1]]
    if wanted is None or not family:
        return nearest(name, choices, most=MOST)
    return [other[0] for other in sorted(family, key=lambda other: (_distance(wanted, other), other[0]))[:MOST]]


def _distance(wanted: re.Match[str], other: re.Match[str]) -> tuple[float, bool, float]:
    """Sort key: generation first (the newer generation on a tie), then variant (`p5e`, `p5en`), then size."""
    generation = int(other[2]) - int(wanted[2])
    return (abs(generation) + 0.5 * (generation < 0), wanted[3] != other[3], abs(_size(wanted[4]) - _size(other[4])))


def _size(text: str) -> float:
    """Return the size in units of `xlarge`: 0.5 for `large`, 48 for `48xlarge`, and 96 for `metal`, a whole machine."""
    if text == "metal":
        return 96.0
    if text in _SIZES:
        return 2.0 ** (_SIZES.index(text) - _SIZES.index("xlarge"))
    return float(text.removesuffix("xlarge"))
