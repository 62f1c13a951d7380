"""Conversion of Kubernetes quantities.

https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
"""

import math
from decimal import Decimal, InvalidOperation


def bytes_of(text: str) -> int:
    """
    >>> bytes_of("64Gi"), bytes_of("1.5k"), bytes_of("12e6")
    (68719476736, 1500, 12000000)
    """
    return int(_amount(text))


def millis_of(text: str) -> int:
    """Return a CPU quantity in millicores.

    >>> millis_of("500m"), millis_of("8"), millis_of("0.5")
    (500, 8000, 500)
    """
    return int(_amount(text) * 1000)


def _amount(text: str) -> Decimal:
    """Raises ValueError."""
    from kubernetes.utils import parse_quantity  # takes 0.5 s to import, and most commands parse no quantity

    if not text.isascii() or any(character.isspace() or character == "_" for character in text):
        raise ValueError(text)
    try:
        amount: Decimal = parse_quantity(text)
    except InvalidOperation:
        raise ValueError(text) from None
    if not math.isfinite(amount):
        raise ValueError(text)
    return amount


def mib(amount: int) -> str:
    """
    >>> mib(512)
    '512Mi'
    """
    return f"{amount}Mi"
