"""Rules that a stack must satisfy: pure functions of settings and facts, one module per topic (see `registry`)."""

from infra.validation.registry import run_rules

__all__ = ["run_rules"]
