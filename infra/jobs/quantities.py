"""Amounts as Kubernetes writes them. https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/"""

import re

_BYTES = {
    "": 1,
    **{letter: 1000**power for power, letter in enumerate("kMGTPE", 1)},
    **{f"{letter}i": 1024**power for power, letter in enumerate("KMGTPE", 1)},
}
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)([A-Za-z]*)")


def bytes_of(text: str) -> int:
    """
    >>> bytes_of("64Gi"), bytes_of("1.5k")
    (68719476736, 1500)
    """
    match = _AMOUNT.fullmatch(text)
    if match is None or match[2] not in _BYTES:
        raise ValueError(text)
    return int(float(match[1]) * _BYTES[match[2]])


def millis_of(text: str) -> int:
    """Thousandths of a CPU.

    >>> millis_of("500m"), millis_of("8"), millis_of("0.5")
    (500, 8000, 500)
    """
    match = _AMOUNT.fullmatch(text)
    if match is None or match[2] not in ("", "m"):
        raise ValueError(text)
    return int(float(match[1]) * (1 if match[2] else 1000))


def mib(amount: int) -> str:
    """
    >>> mib(512)
    '512Mi'
    """
    return f"{amount}Mi"
