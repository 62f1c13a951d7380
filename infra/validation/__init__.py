"""Rules that a stack must satisfy: pure functions of settings and facts, one module per topic (see `registry`)."""

from infra.config.problems import Problem
from infra.validation.registry import check

__all__ = ["Problem", "check"]
