"""Convert Kubernetes quantities to integer thousandths:
https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/"""

import re
from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING, Decimal

_QUANTITY = re.compile(r"(?P<number>[+-]?(?:\d+\.?\d*|\.\d+))(?P<suffix>[eE][+-]?\d+|[KMGTPE]i|[numkMGTPE]?)")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {suffix: 1024**power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)}

Amounts = Mapping[str, int]
"""Amount of each resource in thousandths, keyed by resource name."""


def parse_quantity(text: str | int) -> int:
    """Parse a quantity such as `2`, `500m`, `10Gi` or `1e3`. Round up to thousandths, as Kubernetes does."""
    matched = _QUANTITY.fullmatch(str(text))
    if matched is None:
        raise ValueError(f"{text!r} is not a quantity")
    number, suffix = Decimal(matched["number"]), matched["suffix"]
    if suffix in _BINARY:
        value = number * _BINARY[suffix]
    elif suffix in _DECIMAL:
        value = number.scaleb(_DECIMAL[suffix])
    else:
        value = number.scaleb(int(suffix[1:]))
    return int((value * 1000).to_integral_value(ROUND_CEILING))


def parse_quantities(amounts: Mapping[str, str | int] | None) -> dict[str, int]:
    return {name: parse_quantity(amount) for name, amount in (amounts or {}).items()}


def sum_amounts(several: Iterable[Amounts]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for amounts in several:
        for name, amount in amounts.items():
            totals[name] = totals.get(name, 0) + amount
    return totals


def find_maximum_amounts(several: Iterable[Amounts]) -> dict[str, int]:
    maxima: dict[str, int] = {}
    for amounts in several:
        for name, amount in amounts.items():
            maxima[name] = max(maxima.get(name, 0), amount)
    return maxima
