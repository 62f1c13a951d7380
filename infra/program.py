"""Entry point of `pulumi up`.

    stack file -> settings -> facts -> validation (infra.config.preflight)
               -> plan -> components -> outputs   (infra.clusters, one module per target)

Read `infra.clusters.eks.build` first: it shows the whole architecture.
"""

from collections.abc import Iterable, Mapping

import pulumi

from infra.clusters import ec2, eks, existing
from infra.config import stack_file
from infra.config.preflight import examine_aws, examine_existing
from infra.config.problems import Problem, SettingsError
from infra.config.stack_file import RawStack
from infra.facts import Facts, FactsError
from infra.kubernetes.reachability import Check, assume_reachable, must_be_reachable
from infra.settings.stack import Settings


def run() -> None:
    """Build the stack of this Pulumi operation and export its outputs.

    All problems are reported together, without a traceback, before any resource is registered.
    """
    raw = stack_file.from_engine()
    try:
        outputs = _build_existing(raw) if stack_file.is_existing(raw.values) else _build_aws(raw)
    except (SettingsError, FactsError) as error:
        raise pulumi.RunError(str(error)) from None
    for name, value in outputs.items():
        pulumi.export(name, value)


def build(settings: Settings, facts: Facts, *, reach: Check = assume_reachable) -> Mapping[str, object]:
    """Register every resource of an AWS stack and return its outputs."""
    return eks.build(settings, facts, reach) if settings.is_eks else ec2.build(settings, facts)


def _build_aws(raw: RawStack) -> Mapping[str, object]:
    examined = examine_aws(raw)
    _log_warnings(examined.warnings)
    settings, facts = examined.whole
    return build(settings, facts, reach=must_be_reachable)


def _build_existing(raw: RawStack) -> Mapping[str, object]:
    examined = examine_existing(raw)
    _log_warnings(examined.warnings)
    settings, facts = examined.whole
    return existing.build(settings, facts)


def _log_warnings(warnings: Iterable[Problem]) -> None:
    for warning in warnings:
        pulumi.log.warn(str(warning))
