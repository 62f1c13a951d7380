"""Runs all plan-time queries to AWS and upstream in parallel, because each takes a network round trip."""

import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TypeVar

from infra.facts import account, ec2, ec2_cluster, efs, eks, manifests
from infra.facts.clients import Clients, Denied, query
from infra.facts.instance_types import InstanceType
from infra.facts.model import Ami, Caller, Existing, Facts, FactsError
from infra.facts.node_group_quota import DEFAULT_NODE_GROUPS, NODE_GROUPS, exceeds_default
from infra.naming import STACK_TAG
from infra.settings.platform import CommonPlatformSettings
from infra.settings.stack import Settings
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


class _Queries:
    """Queries in progress. A failed required query stops the plan; a failed optional query is listed in `unchecked`."""

    def __init__(self, threads: ThreadPoolExecutor, region: str, arn: str) -> None:
        self._threads = threads
        self._region = region
        self._arn = arn
        self.unchecked: list[str] = []

    def required(self, call: Callable[[], Answer]) -> "Future[Answer]":
        return self._threads.submit(self._run_required, call)

    def optional(self, what: str, call: Callable[[], Answer], otherwise: Answer) -> "Future[Answer]":
        return self._threads.submit(self._run_optional, what, call, otherwise)

    def _run_required(self, call: Callable[[], Answer]) -> Answer:
        try:
            return query(self._region, call)
        except Denied as denied:
            raise FactsError(f"{self._arn} may not call {denied}, which planning requires. Allow it") from None

    def _run_optional(self, what: str, call: Callable[[], Answer], otherwise: Answer) -> Answer:
        try:
            return query(self._region, call)
        except Denied as denied:
            self.unchecked.append(f"{what}: {self._arn} may not call {denied}")
        except FactsError as error:
            self.unchecked.append(f"{what}: {error}")
        return otherwise


def gather(settings: Settings) -> Facts:
    """Query AWS for what the settings need. Raises FactsError."""
    clients = query(settings.region, lambda: Clients(settings.region))
    caller = account.caller(clients)
    has_admins = settings.is_eks and bool(settings.eks.admins)
    clients.create(settings, needs_iam=has_admins or account.role_name(caller.arn) is not None)
    with ThreadPoolExecutor(PARALLEL) as threads:
        return _gather(settings, clients, caller, _Queries(threads, settings.region, caller.arn))


def _gather(settings: Settings, clients: Clients, caller: Caller, queries: _Queries) -> Facts:
    names = {pool.instance_type for pool in settings.pools} | {settings.target.head_type}
    names.discard("")
    quotas_needed, without_quota = account.quotas_needed(settings)

    types = queries.required(lambda: ec2.instance_types(clients, names))
    offerings = queries.required(lambda: ec2.offerings(clients, names))
    zones = queries.required(lambda: ec2.zones(clients))
    stack_zones = queries.required(lambda: ec2.stack_zones(clients, STACK_TAG, settings.stack))
    stack_vpcs = queries.required(lambda: ec2.stack_vpcs(clients, STACK_TAG, settings.stack))
    existing = queries.required(lambda: _existing(settings, clients))
    principal = _principal(clients, caller, queries)
    quotas = queries.optional("vCPU quotas", lambda: _quotas(clients, quotas_needed), None)
    versions = queries.optional("Kubernetes versions", lambda: _kubernetes_versions(settings, clients), tuple[str, ...]())
    addons = queries.optional("add-on versions", lambda: _addon_versions(settings, clients), dict[str, frozenset[str]]())
    named = _NamedResources(settings, clients, queries, caller.account)
    upstream = queries.required(lambda: manifests.load(wanted_manifests(settings), settings.platform.manifest_mirror))

    missing_types = names - {name for name in types.result() if offerings.result().get(name)}
    all_types = queries.required(lambda: ec2.type_names(clients)).result() if missing_types else frozenset[str]()
    queries.unchecked.extend(f"vCPU quota of {name}: not in AWS's list of quotas" for name in without_quota)
    limits, found = quotas.result(), existing.result()
    ami = queries.required(lambda: _ami(settings, clients, found, types.result())).result()
    unread = sorted(quotas_needed.keys() - limits.keys()) if limits is not None else []
    queries.unchecked.extend(f"vCPU quota {code} ({quotas_needed[code].name}): AWS reports no value" for code in unread)
    node_groups = _node_groups_allowed(settings, clients, queries).result()
    own_vpc = next(iter(sorted(stack_vpcs.result(), key=lambda vpc: vpc.id != found.cluster_vpc_id)), None)
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
        ami=ami,
        existing=replace(found, zones=stack_zones.result(), own_vpc=own_vpc),
        manifests=upstream.result(),
        node_groups_allowed=DEFAULT_NODE_GROUPS if node_groups is None else node_groups,
    )
    return replace(named.add_to(facts), unchecked=tuple(sorted(queries.unchecked)))


def _existing(settings: Settings, clients: Clients) -> Existing:
    if settings.is_eks:
        return eks.existing(clients, settings.cluster_name)
    return ec2_cluster.existing(clients, settings.stack)


def _ami(settings: Settings, clients: Clients, existing: Existing, types: Mapping[str, InstanceType]) -> Ami | None:
    """Return the AMI of an EC2 cluster: from the settings, else from its workers, else the account's newest."""
    if settings.is_eks:
        return None
    named = settings.ec2.ami_id or existing.ami_id
    if named:
        return ec2_cluster.ami(clients, named)
    head = types.get(settings.ec2.head_node_type)
    return ec2_cluster.newest_ami(clients, head.architecture if head else "x86_64", settings.ec2.openmpi)


def wanted_manifests(settings: Settings) -> tuple[Pinned, ...]:
    return manifests_of(settings.platform) if settings.installs_platform else ()


def manifests_of(platform: CommonPlatformSettings) -> tuple[Pinned, ...]:
    """Return the upstream manifests that the enabled parts of the platform need."""
    return (
        *((NVIDIA_MANIFEST,) if platform.device_plugin else ()),
        *((MPI_OPERATOR_MANIFEST,) if platform.mpi_operator else ()),
        *((*KUEUE_CRDS, KUEUE_ROLE, KUEUE_WEBHOOKS) if platform.queue else ()),
    )


def _quotas(clients: Clients, codes: Iterable[str]) -> dict[str, float] | None:
    return account.quota_values(clients, codes)


def _node_groups_allowed(settings: Settings, clients: Clients, queries: _Queries) -> "Future[float | None]":
    def read() -> float | None:
        return account.quota_value(clients, "eks", NODE_GROUPS.code) if exceeds_default(settings) else None

    return queries.optional("quota of node groups per cluster", read, None)


def _principal(clients: Clients, caller: Caller, queries: _Queries) -> "Future[str | None]":
    role = account.role_name(caller.arn)
    if role is None:
        known: Future[str | None] = Future()
        known.set_result(caller.principal_arn)
        return known
    return queries.optional("the IAM role behind the caller", lambda: account.role_arn(clients, role), None)


def _kubernetes_versions(settings: Settings, clients: Clients) -> tuple[str, ...]:
    return eks.kubernetes_versions(clients) if settings.is_eks else ()


def _addon_versions(settings: Settings, clients: Clients) -> dict[str, frozenset[str]]:
    if not settings.is_eks:
        return {}
    version = settings.eks.kubernetes_version
    if version not in KUBERNETES_VERSIONS:
        return {}
    return eks.addon_versions(clients, version, {*addon_versions(version), *settings.eks.addon_versions})


class _NamedResources:
    """Queries about the existing resources named in the settings."""

    def __init__(self, settings: Settings, clients: Clients, queries: _Queries, account_id: str) -> None:
        vpc_id, subnet_ids = settings.network.vpc_id, settings.network.subnet_ids
        groups = {name for pool in settings.pools if (name := pool.own_placement_group)}
        image_ids = {pool.ami_id for pool in settings.pools if pool.ami_id}
        reservation_ids = {pool.reservation_id for pool in settings.pools if pool.reservation_id}
        file_system_id = settings.storage.existing_file_system_id
        self.ids = {*subnet_ids, *groups, *image_ids, *reservation_ids, vpc_id or "", file_system_id or ""} - {""}

        ours = re.compile(rf"arn:[a-z-]+:iam::{account_id}:(role|user)/.+")
        self.admins: dict[str, Future[str | None]] = {
            arn: queries.optional(f"whether {arn} exists", partial(account.principal_arn, clients, arn), arn)
            for arn in (settings.eks.admins if settings.is_eks else ())
            if ours.fullmatch(arn)
        }
        self.endpoints = queries.optional(
            "VPC endpoints of the existing VPC", lambda: ec2.endpoints(clients, vpc_id) if vpc_id else None, None
        )
        self.vpc = queries.required(lambda: ec2.vpc(clients, vpc_id) if vpc_id else None)
        self.subnets = queries.required(lambda: ec2.subnets(clients, subnet_ids) if subnet_ids else {})
        self.groups = queries.required(lambda: ec2.placement_groups(clients, groups) if groups else {})
        self.images = queries.required(lambda: ec2.images(clients, image_ids) if image_ids else {})
        self.file_system = queries.required(lambda: efs.file_system(clients, file_system_id) if file_system_id else None)
        self.reservations = [queries.required(partial(ec2.reservation, clients, one)) for one in sorted(reservation_ids)]

    def add_to(self, facts: Facts) -> Facts:
        vpc, file_system, subnets = self.vpc.result(), self.file_system.result(), self.subnets.result()
        groups, images = self.groups.result(), self.images.result()
        reservations = {one.id: one for future in self.reservations if (one := future.result())}
        known = {*subnets, *groups, *images, *reservations, *(one.id for one in (vpc, file_system) if one)}
        admins = {arn: future.result() for arn, future in self.admins.items()}
        missing_admins = {arn for arn, found in admins.items() if found is None}
        return replace(
            facts,
            endpoints=self.endpoints.result(),
            admins={arn: found for arn, found in admins.items() if found},
            vpc=vpc,
            subnets=subnets,
            placement_groups=groups,
            images=images,
            file_system=file_system,
            reservations=reservations,
            not_found=frozenset(self.ids - known | missing_admins),
        )
