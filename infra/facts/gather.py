"""All questions to AWS, and to upstream, at once, since each answer takes a round trip."""

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TypeVar

from infra.facts import account, ec2, efs, eks
from infra.facts.clients import Clients, Denied, asked
from infra.facts.model import Caller, Facts, FactsError
from infra.naming import STACK_TAG
from infra.platform import manifests
from infra.settings import Settings
from infra.versions import (
    KUBERNETES_VERSIONS,
    KUEUE_CRDS,
    KUEUE_ROLE,
    KUEUE_WEBHOOKS,
    MPI_OPERATOR_MANIFEST,
    NVIDIA_MANIFEST,
    Pinned,
    addon_versions,
)

Answer = TypeVar("Answer")

PARALLEL = 16


class _Questions:
    """Questions under way. Without the answer to a needed one there is no plan; the others leave a sentence behind."""

    def __init__(self, threads: ThreadPoolExecutor, region: str, arn: str) -> None:
        self._threads = threads
        self._region = region
        self._arn = arn
        self.unchecked: list[str] = []

    def needed(self, question: Callable[[], Answer]) -> "Future[Answer]":
        return self._threads.submit(self._ask_needed, question)

    def optional(self, what: str, question: Callable[[], Answer], otherwise: Answer) -> "Future[Answer]":
        return self._threads.submit(self._ask_optional, what, question, otherwise)

    def _ask_needed(self, question: Callable[[], Answer]) -> Answer:
        try:
            return asked(self._region, question)
        except Denied as denied:
            raise FactsError(f"{self._arn} may not call {denied}; allow it, nothing can be planned without it") from None

    def _ask_optional(self, what: str, question: Callable[[], Answer], otherwise: Answer) -> Answer:
        try:
            return asked(self._region, question)
        except Denied as denied:
            self.unchecked.append(f"{what}: {self._arn} may not call {denied}")
        except FactsError as error:
            self.unchecked.append(f"{what}: {error}")
        return otherwise


def gather(settings: Settings) -> Facts:
    """Read from AWS what the settings make necessary. Raises FactsError."""
    clients = asked(settings.region, lambda: Clients(settings.region))
    caller = account.caller(clients)
    clients.make(settings)
    with ThreadPoolExecutor(PARALLEL) as threads:
        return _ask_all(settings, clients, caller, _Questions(threads, settings.region, caller.arn))


def _ask_all(settings: Settings, clients: Clients, caller: Caller, ask: _Questions) -> Facts:
    cluster = settings.cluster_name
    names = {pool.instance_type for pool in settings.pools} | {settings.target.system.instance_type}
    names.discard("")
    quotas_needed, without_quota = account.quotas_needed(settings)

    types = ask.needed(lambda: ec2.instance_types(clients, names))
    offerings = ask.needed(lambda: ec2.offerings(clients, names))
    zones = ask.needed(lambda: ec2.zones(clients))
    stack_zones = ask.needed(lambda: ec2.stack_zones(clients, STACK_TAG, settings.stack))
    stack_vpcs = ask.needed(lambda: ec2.stack_vpcs(clients, STACK_TAG, settings.stack))
    existing = ask.needed(lambda: eks.existing(clients, cluster))
    principal = _principal(clients, caller, ask)
    quotas = ask.optional("vCPU quotas", lambda: _quotas(clients, quotas_needed), None)
    versions = ask.optional("Kubernetes versions", lambda: eks.kubernetes_versions(clients), tuple[str, ...]())
    addons = ask.optional("add-on versions", lambda: _addon_versions(settings, clients), dict[str, frozenset[str]]())
    named = _Named(settings, clients, ask)
    upstream = ask.needed(lambda: manifests.load(wanted_manifests(settings), settings.platform.manifest_mirror))

    missing_types = names - types.result().keys()
    all_types = ask.needed(lambda: ec2.type_names(clients)).result() if missing_types else frozenset[str]()
    ask.unchecked.extend(f"vCPU quota of {name}: AWS's list of quotas does not name it" for name in without_quota)
    limits = quotas.result()
    unread = sorted(quotas_needed.keys() - limits.keys()) if limits is not None else []
    ask.unchecked.extend(f"vCPU quota {code} ({quotas_needed[code].name}): AWS does not say it" for code in unread)
    there = existing.result()
    own_vpc = next(iter(sorted(stack_vpcs.result(), key=lambda vpc: vpc.id != there.cluster_vpc_id)), None)
    facts = Facts(
        region=settings.region,
        partition=caller.arn.split(":")[1],
        caller=replace(caller, principal_arn=principal.result()),
        zones=zones.result(),
        instance_types=types.result(),
        type_names=all_types,
        offerings=offerings.result(),
        quotas=limits or {},
        kubernetes_versions=versions.result(),
        addon_versions=addons.result(),
        existing=replace(there, zones=stack_zones.result(), own_vpc=own_vpc),
        manifests=upstream.result(),
    )
    return replace(named.add_to(facts), unchecked=tuple(sorted(ask.unchecked)))


def wanted_manifests(settings: Settings) -> tuple[Pinned, ...]:
    platform = settings.platform
    if not settings.installs_platform:
        return ()
    return (
        *((NVIDIA_MANIFEST,) if platform.device_plugin else ()),
        *((MPI_OPERATOR_MANIFEST,) if platform.mpi_operator else ()),
        *((*KUEUE_CRDS, KUEUE_ROLE, KUEUE_WEBHOOKS) if platform.queue else ()),
    )


def _quotas(clients: Clients, codes: Iterable[str]) -> dict[str, float] | None:
    return account.quota_values(clients, codes)


def _principal(clients: Clients, caller: Caller, ask: _Questions) -> "Future[str | None]":
    role = account.role_name(caller.arn)
    if role is None:
        known: Future[str | None] = Future()
        known.set_result(caller.principal_arn)
        return known
    _ = clients.iam
    return ask.optional("the IAM role behind the caller", lambda: account.role_arn(clients, role), None)


def _addon_versions(settings: Settings, clients: Clients) -> dict[str, frozenset[str]]:
    version = settings.target.kubernetes_version
    if version not in KUBERNETES_VERSIONS:
        return {}
    return eks.addon_versions(clients, version, {*addon_versions(version), *settings.target.addon_versions})


class _Named:
    """Questions about what the stack names by id."""

    def __init__(self, settings: Settings, clients: Clients, ask: _Questions) -> None:
        vpc_id, subnet_ids = settings.network.vpc_id, settings.network.subnet_ids
        groups = {name for pool in settings.pools if (name := pool.own_placement_group)}
        image_ids = {pool.ami_id for pool in settings.pools if pool.ami_id}
        reservation_ids = {pool.reservation_id for pool in settings.pools if pool.reservation_id}
        file_system_id = settings.storage.existing_file_system_id
        self.ids = {*subnet_ids, *groups, *image_ids, *reservation_ids, vpc_id or "", file_system_id or ""} - {""}

        self.vpc = ask.needed(lambda: ec2.vpc(clients, vpc_id) if vpc_id else None)
        self.subnets = ask.needed(lambda: ec2.subnets(clients, subnet_ids) if subnet_ids else {})
        self.groups = ask.needed(lambda: ec2.placement_groups(clients, groups) if groups else {})
        self.images = ask.needed(lambda: ec2.images(clients, image_ids) if image_ids else {})
        self.file_system = ask.needed(lambda: efs.file_system(clients, file_system_id) if file_system_id else None)
        self.reservations = [ask.needed(partial(ec2.reservation, clients, one)) for one in sorted(reservation_ids)]

    def add_to(self, facts: Facts) -> Facts:
        vpc, file_system, subnets = self.vpc.result(), self.file_system.result(), self.subnets.result()
        groups, images = self.groups.result(), self.images.result()
        reservations = {one.id: one for future in self.reservations if (one := future.result())}
        known = {*subnets, *groups, *images, *reservations, *(one.id for one in (vpc, file_system) if one)}
        return replace(
            facts,
            vpc=vpc,
            subnets=subnets,
            placement_groups=groups,
            images=images,
            file_system=file_system,
            reservations=reservations,
            not_found=frozenset(self.ids - known),
        )
