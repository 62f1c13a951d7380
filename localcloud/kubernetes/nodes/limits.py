"""Maximum number of real nodes per cluster. Further instances become simulated nodes."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from localcloud.kubernetes.nodes.machine import Kind

VARIABLE = "GPUMPI_LOCAL_NODES"
FORM = "cpu=1,gpu=2"


class BadLimit(Exception):
    """The limit cannot be parsed. The message shows the expected format."""


@dataclass(frozen=True)
class Limits:
    """Maximum number of real nodes: `gpu` for instances with GPUs, `cpu` for all others."""

    cpu: int = 1
    gpu: int = 2

    def get_limit(self, kind: Kind) -> int:
        return self.gpu if kind == "gpu" else self.cpu

    def __str__(self) -> str:
        return f"cpu={self.cpu},gpu={self.gpu}"

    @classmethod
    def parse(cls, text: str) -> "Limits":
        """
        >>> Limits.parse("gpu=3")
        Limits(cpu=1, gpu=3)
        """
        numbers: dict[str, int] = {}
        for part in filter(None, text.split(",")):
            kind, _, number = part.strip().partition("=")
            if kind not in ("cpu", "gpu") or not number.isdecimal():
                raise BadLimit(f"{VARIABLE}: not a valid limit of real nodes per local cluster ({text!r}). Example: {FORM}")
            numbers[kind] = int(number)
        return cls(**numbers)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Limits":
        return cls.parse(environment.get(VARIABLE, ""))
