"""Entry point of `pulumi up`.

    stack file -> settings -> facts -> validation (infra.preflight)
               -> plan -> components -> outputs   (infra.clusters, one module per target)

Read `infra.clusters.eks.build` first: it shows the whole architecture.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

import pulumi

from infra.clusters import ec2, eks, existing
from infra.config import stack_file
from infra.config.problems import Problem, SettingsError
from infra.config.stack_file import RawStack
from infra.config.stopping import stop_with_error
from infra.facts.clients import Clients, Denied, query
from infra.facts.model import Facts, FactsError
from infra.kubernetes.reachability import Check, skip_connection_check, wait_until_usable
from infra.naming import Naming
from infra.preflight import Examined, examine_aws_stack, examine_existing_stack
from infra.settings.stack import Settings

SKIP_CHECKS: Final = "GPUMPI_SKIP_CHECKS"
"""Environment variable; with the value `1`, `pulumi up` continues even if checks fail."""


def run_program() -> None:
    """Build the stack of this Pulumi operation and export its outputs.

    All problems are reported together, without a traceback, before any resource is registered.
    """
    raw = stack_file.read_running_stack()
    try:
        outputs = _build_existing_cluster_stack(raw) if stack_file.uses_existing_cluster(raw.values) else _build_aws_stack(raw)
    except (SettingsError, FactsError) as error:
        stop_with_error(str(error))
    for name, value in outputs.items():
        pulumi.export(name, value)


def build_aws_cluster(settings: Settings, facts: Facts, *, check: Check = skip_connection_check) -> Mapping[str, object]:
    """Register every resource of an AWS stack and return its outputs."""
    return eks.build(settings, facts, check) if settings.is_eks else ec2.build(settings, facts)


def _build_aws_stack(raw: RawStack) -> Mapping[str, object]:
    examined = checked = examine_aws_stack(raw)
    if os.environ.get(SKIP_CHECKS) == "1":
        examined = _downgrade_errors(examined)
    _log_warnings(examined.warnings)
    settings, facts = examined.settings_and_facts
    for sentence in facts.unchecked_sentences:
        pulumi.log.warn(f"not checked: {sentence}")
    if facts.existing.has_leftover_logs:
        _delete_leftover_logs(settings, facts)
    try:
        return build_aws_cluster(settings, facts, check=wait_until_usable)
    except LookupError:
        if not checked.problems:
            raise
        raise SettingsError(checked.problems) from None  # if checks are skipped, AWS may not offer a type or zone


def _delete_leftover_logs(settings: Settings, facts: Facts) -> None:
    """Delete the log group that EKS recreated after `destroy`, so that this `up` can create it; in a preview, only report
    it.

    EKS delivers the last audit logs of a deleted cluster late, and recreates the log group for them, without
    retention, key or tags (docs/adr/0047).
    """
    log_group, clients = Naming(settings.stack).control_plane_logs, Clients(facts.region)
    pulumi.log.info(f"EKS recreated {log_group} left over from the last deleted cluster; `pulumi up` replaces it")
    if pulumi.runtime.is_dry_run():
        return

    def delete_log_group() -> None:
        try:
            clients.logs.delete_log_group(logGroupName=log_group)
        except clients.logs.exceptions.ResourceNotFoundException:
            return

    try:
        query(facts.region, delete_log_group)
    except Denied as denied:
        problem = f"{log_group} is left over from a deleted cluster, but {facts.caller.arn} may not call {denied}"
        fix = f"Allow it, or run: aws logs delete-log-group --region {facts.region} --log-group-name {log_group}"
        raise FactsError(f"{problem}. {fix}") from None


def _downgrade_errors(examined: Examined[Settings, Facts]) -> Examined[Settings, Facts]:
    """Downgrade errors to warnings, so that AWS itself rejects invalid settings. A stack that cannot be planned still
    fails."""
    pulumi.log.warn(
        f"{SKIP_CHECKS}=1: failed checks are only warnings; AWS may reject some resources after it has created others"
    )
    warnings = [replace(problem, severity="warning") for problem in examined.problems]
    return replace(examined, problems=(), warnings=(*warnings, *examined.warnings))


def _build_existing_cluster_stack(raw: RawStack) -> Mapping[str, object]:
    examined = examine_existing_stack(raw)
    _log_warnings(examined.warnings)
    settings, facts = examined.settings_and_facts
    return existing.build(settings, facts)


def _log_warnings(warnings: Iterable[Problem]) -> None:
    for warning in warnings:
        pulumi.log.warn(str(warning))
