"""Run all plan-time queries (AWS, upstream manifests) in parallel, because each query takes a network round trip."""

import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TypeVar

from infra.facts import account, ebs_key, ec2, ec2_cluster, efs, eks, fsx, manifests, price_list
from infra.facts.clients import Clients, Denied, query
from infra.facts.instance_types import InstanceType
from infra.facts.model import Ami, Caller, Existing, Facts, FactsError, LustreFileSystem
from infra.facts.node_group_quota import DEFAULT_NODE_GROUPS, NODE_GROUPS, exceeds_default
from infra.facts.price_list import Wanted
from infra.facts.running import vcpus_in_use
from infra.naming import STACK_TAG, Naming
from infra.settings.platform import CommonPlatformSettings
from infra.settings.stack import Settings
from infra.versions import (
    KUEUE_CRDS,
    KUEUE_ROLE,
    KUEUE_WEBHOOKS,
    LIVE_KUBERNETES_VERSIONS,
    MPI_OPERATOR_MANIFEST,
    NVIDIA_MANIFEST,
    TRAINER_MANIFESTS,
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
    """Query AWS for the facts that the settings require. Raises FactsError."""
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
    in_use = queries.optional("running instances", lambda: vcpus_in_use(clients, settings.stack), dict[str, int]())
    versions = queries.optional("Kubernetes versions", lambda: _kubernetes_versions(settings, clients), eks.Versions())
    addons = queries.optional("add-on versions", lambda: _addon_versions(settings, clients), dict[str, frozenset[str]]())
    of_account = _AccountFacts(settings, clients, queries, caller)
    of_lustre = _LustreFacts(settings, clients, queries)
    named = _NamedResources(settings, clients, queries, caller.account)
    upstream = queries.required(lambda: manifests.load(wanted_manifests(settings), settings.platform.manifest_mirror))

    missing_types = names - {name for name in types.result() if offerings.result().get(name)}
    all_types = queries.required(lambda: ec2.type_names(clients)).result() if missing_types else frozenset[str]()
    queries.unchecked.extend(f"vCPU quota of {name}: not in AWS's list of quotas" for name in without_quota)
    limits, found = quotas.result(), existing.result()
    leftover_logs = queries.optional("control plane logs", lambda: _leftover_logs(settings, clients, found), False)
    ami = queries.required(lambda: _ami(settings, clients, found, types.result())).result()
    unread = sorted(quotas_needed.keys() - limits.keys()) if limits is not None else []
    queries.unchecked.extend(f"vCPU quota {code} ({quotas_needed[code].name}): AWS reports no value" for code in unread)
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
        in_use=in_use.result(),
        kubernetes_versions=versions.result().offered,
        today=eks.today(),
        extended_support=versions.result().extended,
        addon_versions=addons.result(),
        ami=ami,
        existing=replace(found, zones=stack_zones.result(), own_vpc=own_vpc, has_leftover_logs=leftover_logs.result()),
        manifests=upstream.result(),
    )
    return replace(of_account.add_to(of_lustre.add_to(named.add_to(facts))), unchecked=tuple(sorted(queries.unchecked)))


def _leftover_logs(settings: Settings, clients: Clients, existing: Existing) -> bool:
    is_absent = settings.is_eks and existing.cluster_version is None
    return is_absent and eks.has_leftover_logs(clients, Naming(settings.stack).control_plane_logs)


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
        *(TRAINER_MANIFESTS if platform.trainer else ()),
    )


def _quotas(clients: Clients, codes: Iterable[str]) -> dict[str, float] | None:
    return account.quota_values(clients, codes)


def _principal(clients: Clients, caller: Caller, queries: _Queries) -> "Future[str | None]":
    role = account.role_name(caller.arn)
    if role is None:
        known: Future[str | None] = Future()
        known.set_result(caller.principal_arn)
        return known
    return queries.optional("the IAM role behind the caller", lambda: account.role_arn(clients, role), None)


def _kubernetes_versions(settings: Settings, clients: Clients) -> eks.Versions:
    return eks.kubernetes_versions(clients) if settings.is_eks else eks.Versions()


def _addon_versions(settings: Settings, clients: Clients) -> dict[str, frozenset[str]]:
    if not settings.is_eks:
        return {}
    version = settings.eks.kubernetes_version
    if version not in LIVE_KUBERNETES_VERSIONS:
        return {}
    tested = addon_versions(version, lustre=settings.storage.lustre is not None)
    return eks.addon_versions(clients, version, {*tested, *settings.eks.addon_versions})


_Mounts = tuple[efs.Admitted, frozenset[str]]
"""Sources from which an existing file system's mount targets allow NFS traffic, and security groups of the nodes."""


class _AccountFacts:
    """Queries about the parts of the account in this Region that the settings depend on."""

    def __init__(self, settings: Settings, clients: Clients, queries: _Queries, caller: Caller) -> None:
        partition = caller.arn.split(":")[1]
        needs_services = settings.network.has_interface_endpoints and not settings.network.is_existing
        self.node_groups = queries.optional(
            "quota of node groups per cluster",
            lambda: account.quota_value(clients, "eks", NODE_GROUPS.code) if exceeds_default(settings) else None,
            None,
        )
        self.endpoint_services = queries.optional(
            "services that offer VPC endpoints", lambda: ec2.endpoint_services(clients) if needs_services else None, None
        )
        self.ebs_key = queries.optional(
            "whether Auto Scaling may use the default key of EBS",
            lambda: ebs_key.default_key(clients, partition, caller.account),
            None,
        )

        # Not an optional query: the bill reports each missing price.
        self.prices = queries.required(lambda: price_list.read(Wanted.of(settings)) if settings.budget.is_set else None)

    def add_to(self, facts: Facts) -> Facts:
        node_groups = self.node_groups.result()
        return replace(
            facts,
            node_groups_allowed=DEFAULT_NODE_GROUPS if node_groups is None else node_groups,
            endpoint_services=self.endpoint_services.result(),
            ebs_key=self.ebs_key.result(),
            prices=self.prices.result(),
        )


class _LustreFacts:
    """Queries about the FSx for Lustre file system of a stack, if it has one."""

    def __init__(self, settings: Settings, clients: Clients, queries: _Queries) -> None:
        self._wanted = settings.storage.existing_lustre_id
        wanted, lustre, naming = self._wanted, settings.storage.lustre, Naming(settings.stack)
        creates = lustre is not None and wanted is None
        own = {STACK_TAG: settings.stack, "Name": naming.name("lustre-file-system")}
        nodes = {STACK_TAG: settings.stack, "Name": naming.name("nodes")}
        bucket = lustre.data_repository.bucket if lustre and lustre.data_repository else None

        def named() -> LustreFileSystem | None:
            found = fsx.file_system(clients, wanted) if wanted else None
            if found is None:
                return None
            groups = efs.nodes_groups(clients, nodes=nodes, cluster=naming.cluster)
            return replace(found, admitted=fsx.admitted(clients, found), nodes_groups=groups)

        self._named = queries.required(named)
        self._own = queries.required(lambda: fsx.own_file_system(clients, own) if creates else None)
        key = lustre.kms_key_arn if lustre else None
        self._key_state = queries.optional(f"key of FSx {key}", lambda: fsx.key_state(clients, key) if key else None, None)
        self._bucket = queries.optional(
            f"bucket {bucket}", lambda: (fsx.bucket_region(clients, bucket) or "") if bucket else None, None
        )

    def add_to(self, facts: Facts) -> Facts:
        named = self._named.result()
        missing = {self._wanted} if self._wanted and named is None else set[str]()
        return replace(
            facts,
            lustre=named,
            existing=replace(facts.existing, lustre=self._own.result()),
            bucket_region=self._bucket.result(),
            lustre_key_state=self._key_state.result(),
            not_found=facts.not_found | missing,
        )


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
        self.mounts = self._mounts(settings, clients, queries)
        self.reservations = [queries.required(partial(ec2.reservation, clients, one)) for one in sorted(reservation_ids)]

    @staticmethod
    def _mounts(settings: Settings, clients: Clients, queries: _Queries) -> "Future[_Mounts | None]":
        """Read the security groups that decide which nodes can mount an existing file system.

        The query is required if the stack adds rules to these groups: without the result, `up` would delete the rules.
        """
        name = settings.storage.existing_file_system_id
        naming = Naming(settings.stack)
        tags = {STACK_TAG: settings.stack, "Name": naming.name("nodes")}

        def read() -> _Mounts | None:
            if name is None:
                return None
            return efs.admitted(clients, name), efs.nodes_groups(clients, nodes=tags, cluster=naming.cluster)

        if settings.storage.adds_ingress_rule:
            return queries.required(read)
        return queries.optional(f"security groups of {name}'s mount targets", read, None)

    def add_to(self, facts: Facts) -> Facts:
        vpc, file_system, subnets = self.vpc.result(), self.file_system.result(), self.subnets.result()
        groups, images, mounts = self.groups.result(), self.images.result(), self.mounts.result()
        if file_system is not None and mounts is not None:
            file_system = replace(file_system, admitted=mounts[0], nodes_groups=mounts[1])
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
