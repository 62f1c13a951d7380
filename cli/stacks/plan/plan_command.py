"""`plan`: show what `pulumi up` will do, whether AWS allows it, and what it costs. Creates nothing."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from cli import options
from cli.clusters.status.cluster_status import BlockStatus
from cli.console import print_result
from cli.errors import CommandError
from cli.exit_codes import USAGE
from cli.installation import CLONE
from cli.stacks.plan import changes
from cli.stacks.plan.changes import Changes
from cli.stacks.plan.plan_report import Report
from cli.stacks.plan.plan_screen import render_report
from infra import preflight
from infra.checks import images, limits, permissions, rules
from infra.checks.model import Answer, build_unknown_answer
from infra.config import stack_file
from infra.config.stack_file import RawStack
from infra.cost.prices import Prices, read_snapshot
from infra.facts import price_list
from infra.facts.model import Facts
from infra.facts.price_list import Wanted
from infra.inventory.bill import Bill, compute_bill
from infra.preflight import Examined
from infra.settings.pools import CapacityBlock
from infra.settings.stack import Settings
from infra.validation.registry import Topic


def command(
    stack: options.Stack,
    no_preview: Annotated[bool, typer.Option("--no-preview", help="Do not run `pulumi preview`.")] = False,
    offline: Annotated[
        bool, typer.Option("--offline", help="Query nothing: prices come from a dated snapshot, and checks are unknown.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 6 if a check, a price or the changes are unknown.")] = False,
    config_dir: options.ConfigDir = options.STACK_FILES,
    as_json: options.Json = False,
) -> int:
    """Creates nothing. Exits with 0 if no check fails, and with 3 if one does; unknown checks are warnings."""
    path = stack_file.find_stack_file(stack, config_dir)
    raw = stack_file.read_stack_file(path)
    if stack_file.uses_existing_cluster(raw.values):
        raise CommandError(
            f"{stack} uses an existing Kubernetes cluster: there is nothing to buy. Use `validate -s {stack}`", USAGE
        )
    file = None if config_dir == options.STACK_FILES else path
    report = build_report(raw, offline=offline, look_ahead=_make_preview(stack, file, no_preview=no_preview, offline=offline))
    code = report.code(strict=strict)
    return print_result(report.as_json(strict=strict), render_report(report, strict=strict), as_json=as_json, code=code)


def _make_preview(stack: str, file: Path | None, *, no_preview: bool, offline: bool) -> Callable[[], Changes]:
    if no_preview or offline:
        option = "--no-preview" if no_preview else "--offline"
        return lambda: Changes({}, not_previewed=option)
    if CLONE is None:
        return lambda: changes.make_failed_preview("`pulumi preview` needs a clone of the repository; --no-preview skips it")
    return lambda: changes.preview_changes(stack, file)


def build_report(raw: RawStack, *, offline: bool, look_ahead: Callable[[], Changes]) -> Report:
    """Run the checks, the price queries and the preview in parallel. If the stack has a budget, its check reads the prices."""
    parsed = preflight.parse_aws_stack(raw).model if raw.is_readable else None
    read_prices = partial(_read_prices, raw, parsed, offline=offline)
    has_budget = not offline and parsed is not None and parsed.budget.is_set
    with ThreadPoolExecutor(2) as threads:
        ahead = threads.submit(look_ahead)
        prices = None if has_budget else threads.submit(read_prices)
        examined = preflight.examine_aws_stack(raw, offline=offline)
        settings, facts = examined.settings, examined.facts
        known_prices = prices.result() if prices else facts.prices if facts else None
        planned = _compute_bill(settings, facts, known_prices or read_prices())
        return Report(
            _format_heading(raw, examined),
            raw.stack,
            raw.region,
            tuple(_list_answers(examined, planned)),
            planned,
            ahead.result(),
            has_unreserved=settings is not None and any(not pool.is_reserved for pool in settings.pools),
        )


def _list_answers(examined: Examined[Settings, Facts], planned: Bill | None) -> Iterator[Answer]:
    """Yield the results of all checks, even if one fails, so that one run reports all problems."""
    settings, facts = examined.settings, examined.facts
    by_topic = {answer.check: answer for answer in rules.check_topics(examined)}
    yield from (_add_block_times(answer, settings, facts) for answer in by_topic.values())
    if settings is not None and facts is not None and by_topic[Topic.STACK_FILE].verdict != "no":
        yield from _check_account(settings, facts)
    if settings is not None and planned is not None:
        yield from rules.check_budget(settings, planned)


def _add_block_times(answer: Answer, settings: Settings | None, facts: Facts | None) -> Answer:
    """Add to the reservation check when the nodes of each Capacity Block start, or how much time is left until they are drained.

    Times are relative to AWS's clock.
    """
    if answer.check != Topic.RESERVATIONS or answer.verdict != "yes" or settings is None or facts is None:
        return answer
    ids = dict.fromkeys(pool.reservation_id or "" for pool in settings.pools if isinstance(pool.capacity, CapacityBlock))
    blocks = [facts.reservations[block_id] for block_id in ids if block_id in facts.reservations]
    return replace(
        answer,
        sentences=tuple(
            BlockStatus(block.id, block.state, block.start, block.end, settings.is_eks).sentence(blocks[0].read_at)
            for block in blocks
            if block.start and block.end
        ),
    )


def _check_account(settings: Settings, facts: Facts) -> Iterator[Answer]:
    """Yield the results of the checks that only `plan` runs: account limits, permissions and images.

    Some of these checks are unknown if the stack uses an instance type or zone that AWS does not have.
    """
    with ThreadPoolExecutor(3) as threads:
        futures = [
            threads.submit(_collect_answers, "limits of the account", lambda: list(limits.check_limits(settings, facts))),
            threads.submit(_collect_answers, permissions.NAME, lambda: [permissions.check_permissions(settings, facts)]),
            threads.submit(_collect_answers, images.EXIST, lambda: list(images.check_images(settings, facts))),
        ]
        for future in futures:
            yield from future.result()


def _collect_answers(name: str, answers: Callable[[], list[Answer]]) -> list[Answer]:
    try:
        return answers()
    except LookupError:  # AWS does not have an instance type or zone of the stack; a rule reports it
        return [build_unknown_answer(name, "the stack uses an instance type or zone that AWS does not have")]


def _read_prices(raw: RawStack, settings: Settings | None, *, offline: bool) -> Prices:
    """Query the prices of a stack even if its stack file has problems. Offline, read the snapshot."""
    if offline or settings is None:
        return read_snapshot(raw.region)
    return price_list.read(Wanted.from_settings(settings))


def _compute_bill(settings: Settings | None, facts: Facts | None, prices: Prices) -> Bill | None:
    """Return the bill. If the facts lack an instance type or zone of the stack, use only the stack file. Return None if the
    stack file does not describe a stack that `pulumi up` could create; then a rule reports why."""
    if settings is None:
        return None
    with suppress(LookupError):
        return compute_bill(settings, facts, prices)
    with suppress(LookupError):
        return compute_bill(settings, None, prices)
    return None


def _format_heading(raw: RawStack, examined: Examined[Settings, Facts]) -> str:
    settings, facts = examined.settings, examined.facts
    if settings is None:
        return raw.stack
    kind = f"EKS cluster, Kubernetes {settings.eks.kubernetes_version}" if settings.is_eks else "EC2 cluster"
    account = f"; account {facts.caller.account}" if facts else ""
    return f"{settings.cluster_name}: {kind}, in {settings.region}{account}"
