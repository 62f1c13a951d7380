"""Run all plan-time queries (AWS, upstream manifests) in parallel, because each query takes a network round trip."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TypeVar

from infra.facts import account, ebs_key, ec2, ec2_cluster, efs, eks, fsx, manifests, price_list, security_groups
from infra.facts.clients import Clients, Denied, query
from infra.facts.instance_types import InstanceType
from infra.facts.model import AddonVersions, Ami, Caller, Existing, Facts, FactsError, LustreFileSystem
from infra.facts.price_list import Wanted
from infra.facts.queries import Query
from infra.facts.running import vcpus_in_use
from infra.facts.service_quotas import DEFAULT_NODE_GROUPS, NODE_GROUPS, exceeds_default
from infra.naming import STACK_TAG, Naming
from infra.settings.platform import CommonPlatformSettings
from infra.settings.stack import Settings
from infra.settings.storage import ExistingEfs, ExistingLustre
from infra.versions import (
    KUEUE_CRDS,
    KUEUE_ROLE,
    KUEUE_WEBHOOKS,
    LIVE_KUBERNETES_VERSIONS,
    MPI_OPERATOR_MANIFEST,
    NVIDIA_MANIFEST,
    TRAINER_MANIFESTS,
    Pinned,
)

Answer = TypeVar("Answer")

PARALLEL = 16


class _Queries:
    """Queries in progress. A failed required query stops the plan; a failed optional query is listed in `unchecked`."""

    def __init__(self, threads: ThreadPoolExecutor, region: str, arn: str) -> None:
        self._threads = threads
        self._region = region
        self._arn = arn
        self._unchecked: dict[Query, list[str]] = defaultdict(list)

    def required(self, kind: Query, call: Callable[[], Answer]) -> "Future[Answer]":
        return self._threads.submit(self._run_required, kind, call)

    def optional(self, kind: Query, call: Callable[[], Answer], default: Answer, subject: str = "") -> "Future[Answer]":
        """Start a query whose failure leaves the default. `subject` names what it reads, if the query's own does not."""
        return self._threads.submit(self._run_optional, kind, call, default, subject or kind.subject)

    def add_unchecked(self, kind: Query, sentence: str) -> None:
        self._unchecked[kind].append(sentence)

    @property
    def unchecked(self) -> dict[Query, tuple[str, ...]]:
        return {kind: tuple(sorted(sentences)) for kind, sentences in self._unchecked.items()}

    def _run_required(self, kind: Query, call: Callable[[], Answer]) -> Answer:
        try:
            return self._call(kind, call)
        except Denied as denied:
            raise FactsError(f"{self._arn} may not call {denied}, which planning requires. Allow it") from None

    def _run_optional(self, kind: Query, call: Callable[[], Answer], default: Answer, subject: str) -> Answer:
        try:
            return self._call(kind, call)
        except Denied as denied:
            self.add_unchecked(kind, f"{subject}: {self._arn} may not call {denied}")
        except FactsError as error:
            self.add_unchecked(kind, f"{subject}: {error}")
        return default

    def _call(self, kind: Query, call: Callable[[], Answer]) -> Answer:
        """Run one query. Tests record here which operations each query calls."""
        return query(self._region, call)


def gather(settings: Settings) -> Facts:
    """Query AWS for the facts that the settings require. Raises FactsError."""
    clients = query(settings.region, lambda: Clients(settings.region))
    caller = account.caller(clients)
    with ThreadPoolExecutor(PARALLEL) as threads:
        return _gather(settings, clients, caller, _Queries(threads, settings.region, caller.arn))


def _gather(settings: Settings, clients: Clients, caller: Caller, queries: _Queries) -> Facts:
    names = {pool.instance_type for pool in settings.pools} | {settings.target.head_type}
    names.discard("")
    quotas_needed, without_quota = account.quotas_needed(settings)

    types = queries.required(Query.INSTANCE_TYPES, lambda: ec2.instance_types(clients, names))
    offerings = queries.required(Query.INSTANCE_TYPES, lambda: ec2.offerings(clients, names))
    zones = queries.required(Query.ZONES, lambda: ec2.zones(clients))
    stack_zones = queries.required(Query.OWN_NETWORK, lambda: ec2.stack_zones(clients, STACK_TAG, settings.stack))
    stack_vpcs = queries.required(Query.OWN_NETWORK, lambda: ec2.stack_vpcs(clients, STACK_TAG, settings.stack))
    existing = queries.required(Query.EKS_CLUSTER if settings.is_eks else Query.WORKERS, lambda: _existing(settings, clients))
    principal = _principal(clients, caller, queries)
    quotas = queries.optional(Query.VCPU_QUOTAS, lambda: _vcpu_quotas(clients, quotas_needed), None)
    in_use = queries.optional(Query.VCPUS_IN_USE, lambda: vcpus_in_use(clients, settings.stack), dict[str, int]())
    versions = queries.optional(Query.KUBERNETES_VERSIONS, lambda: _kubernetes_versions(settings, clients), eks.Versions())
    addons = queries.optional(Query.ADDON_VERSIONS, lambda: _addon_versions(settings, clients), dict[str, AddonVersions]())
    account_facts = _AccountFacts(settings, clients, queries, caller)
    storage_facts = _StorageFacts(settings, clients, queries)
    named = _NamedResources(settings, clients, queries, caller.account)
    upstream = queries.required(
        Query.MANIFESTS, lambda: manifests.load(stack_manifests(settings), settings.platform.manifest_mirror)
    )

    missing_types = names - {name for name in types.result() if offerings.result().get(name)}
    all_types = (
        queries.required(Query.INSTANCE_TYPES, lambda: ec2.type_names(clients)).result() if missing_types else frozenset[str]()
    )
    for name in without_quota:
        queries.add_unchecked(Query.VCPU_QUOTAS, f"vCPU quota of {name}: not in AWS's list of quotas")
    limits, resources = quotas.result(), existing.result()
    leftover_logs = queries.optional(
        Query.CONTROL_PLANE_LOGS, lambda: _has_leftover_logs(settings, clients, resources), default=False
    )
    ami = queries.required(Query.AMI, lambda: _ami(settings, clients, resources, types.result())).result()
    for code in sorted(quotas_needed.keys() - limits.keys()) if limits is not None else ():
        queries.add_unchecked(Query.VCPU_QUOTAS, f"vCPU quota {code} ({quotas_needed[code].name}): AWS reports no value")
    own_vpc = next(iter(sorted(stack_vpcs.result(), key=lambda vpc: vpc.id != resources.cluster_vpc_id)), None)
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
        existing=replace(resources, zones=stack_zones.result(), own_vpc=own_vpc, has_leftover_logs=leftover_logs.result()),
        manifests=upstream.result(),
    )
    return replace(account_facts.add_to(storage_facts.add_to(named.add_to(facts))), unchecked=queries.unchecked)


def _has_leftover_logs(settings: Settings, clients: Clients, existing: Existing) -> bool:
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
    ami_id = settings.ec2.ami_id or existing.ami_id
    if ami_id:
        return ec2_cluster.ami(clients, ami_id)
    head = types.get(settings.ec2.head_node_type)
    return ec2_cluster.newest_ami(clients, head.architecture if head else "x86_64", settings.ec2.openmpi)


def stack_manifests(settings: Settings) -> tuple[Pinned, ...]:
    return platform_manifests(settings.platform) if settings.installs_platform else ()


def platform_manifests(platform: CommonPlatformSettings) -> tuple[Pinned, ...]:
    """Return the upstream manifests that the enabled parts of the platform need."""
    return (
        *((NVIDIA_MANIFEST,) if platform.device_plugin else ()),
        *((MPI_OPERATOR_MANIFEST,) if platform.mpi_operator else ()),
        *((*KUEUE_CRDS, KUEUE_ROLE, KUEUE_WEBHOOKS) if platform.queue else ()),
        *(TRAINER_MANIFESTS if platform.trainer else ()),
    )


def _vcpu_quotas(clients: Clients, codes: Iterable[str]) -> dict[str, float] | None:
    return account.quota_values(clients, codes)


def _principal(clients: Clients, caller: Caller, queries: _Queries) -> "Future[str | None]":
    role = account.role_name(caller.arn)
    if role is None:
        principal: Future[str | None] = Future()
        principal.set_result(caller.principal_arn)
        return principal
    return queries.optional(Query.CALLER_ROLE, lambda: account.role_arn(clients, role), None)


def _kubernetes_versions(settings: Settings, clients: Clients) -> eks.Versions:
    return eks.kubernetes_versions(clients) if settings.is_eks else eks.Versions()


def _addon_versions(settings: Settings, clients: Clients) -> dict[str, AddonVersions]:
    if not settings.is_eks or settings.eks.kubernetes_version not in LIVE_KUBERNETES_VERSIONS:
        return {}
    return eks.addon_versions(clients, settings.eks.kubernetes_version)


_Mounts = tuple[efs.Admitted, frozenset[str]]
"""Sources from which an existing file system's mount targets allow NFS traffic, and security groups of the nodes."""


class _AccountFacts:
    """Queries about the parts of the account in this Region that the settings depend on."""

    def __init__(self, settings: Settings, clients: Clients, queries: _Queries, caller: Caller) -> None:
        partition = caller.arn.split(":")[1]
        needs_services = settings.network.has_interface_endpoints and not settings.network.is_existing
        self.node_groups = queries.optional(
            Query.NODE_GROUP_QUOTA,
            lambda: account.quota_value(clients, "eks", NODE_GROUPS.code) if exceeds_default(settings) else None,
            None,
        )
        self.endpoint_services = queries.optional(
            Query.ENDPOINT_SERVICES, lambda: ec2.endpoint_services(clients) if needs_services else None, None
        )
        self.ebs_key = queries.optional(Query.EBS_KEY, lambda: ebs_key.default_key(clients, partition, caller.account), None)

        # Not an optional query: the bill reports each missing price.
        self.prices = queries.required(
            Query.PRICES, lambda: price_list.read(Wanted.of(settings)) if settings.budget.is_set else None
        )

    def add_to(self, facts: Facts) -> Facts:
        node_groups = self.node_groups.result()
        return replace(
            facts,
            node_groups_allowed=DEFAULT_NODE_GROUPS if node_groups is None else node_groups,
            endpoint_services=self.endpoint_services.result(),
            ebs_key=self.ebs_key.result(),
            prices=self.prices.result(),
        )


class _StorageFacts:
    """Queries about the file systems of a stack, and what the stack file names for new ones."""

    def __init__(self, settings: Settings, clients: Clients, queries: _Queries) -> None:
        storage, naming = settings.storage, Naming(settings.stack)
        efs_id = storage.efs.file_system_id if isinstance(storage.efs, ExistingEfs) else None
        lustre_id = storage.fsx.file_system_id if isinstance(storage.fsx, ExistingLustre) else None
        self._ids = {efs_id, lustre_id} - {None}
        new = storage.new_lustre
        own = {STACK_TAG: settings.stack, "Name": naming.name("lustre-file-system")}
        key = new.kms_key_arn if new else None
        bucket = new.data_repository.bucket if new and new.data_repository else None

        def read_nodes_groups() -> frozenset[str]:
            nodes = {STACK_TAG: settings.stack, "Name": naming.name("nodes")}
            return security_groups.nodes_groups(clients, nodes=nodes, cluster=naming.cluster)

        def read_mounts() -> _Mounts | None:
            return (efs.admitted(clients, efs_id), read_nodes_groups()) if efs_id else None

        def read_lustre() -> LustreFileSystem | None:
            file_system = fsx.file_system(clients, lustre_id) if lustre_id else None
            return replace(file_system, nodes_groups=read_nodes_groups()) if file_system else None

        self._efs = queries.required(Query.FILE_SYSTEM, lambda: efs.file_system(clients, efs_id) if efs_id else None)
        if isinstance(storage.efs, ExistingEfs) and storage.efs.add_ingress_rule:
            # Required: without the result, `up` would delete the rules that the stack has added to these groups.
            self._mounts = queries.required(Query.MOUNT_TARGETS, read_mounts)
        else:
            subject = f"security groups of {efs_id}'s mount targets"
            self._mounts = queries.optional(Query.MOUNT_TARGETS, read_mounts, None, subject)
        self._lustre = queries.required(Query.LUSTRE, read_lustre)
        self._own = queries.required(Query.LUSTRE, lambda: fsx.own_file_system(clients, own) if new else None)
        self._key_state = queries.optional(
            Query.LUSTRE_KEY, lambda: fsx.key_state(clients, key) if key else None, None, f"key of FSx {key}"
        )
        self._bucket = queries.optional(
            Query.BUCKET, lambda: (fsx.bucket_region(clients, bucket) or "") if bucket else None, None, f"bucket {bucket}"
        )

    def add_to(self, facts: Facts) -> Facts:
        file_system, mounts, lustre = self._efs.result(), self._mounts.result(), self._lustre.result()
        if file_system is not None and mounts is not None:
            file_system = replace(file_system, admitted=mounts[0], nodes_groups=mounts[1])
        existing = {each.id for each in (file_system, lustre) if each}
        return replace(
            facts,
            efs={file_system.id: file_system} if file_system else {},
            lustre={lustre.id: lustre} if lustre else {},
            existing=replace(facts.existing, lustre=self._own.result()),
            bucket_region=self._bucket.result(),
            lustre_key_state=self._key_state.result(),
            not_found=facts.not_found | self._ids - existing,
        )


class _NamedResources:
    """Queries about the existing resources named in the settings."""

    def __init__(self, settings: Settings, clients: Clients, queries: _Queries, account_id: str) -> None:
        vpc_id, subnet_ids = settings.network.vpc_id, settings.network.subnet_ids
        groups = {name for pool in settings.pools if (name := pool.own_placement_group)}
        image_ids = {pool.ami_id for pool in settings.pools if pool.ami_id}
        reservation_ids = {pool.reservation_id for pool in settings.pools if pool.reservation_id}
        self.ids = {*subnet_ids, *groups, *image_ids, *reservation_ids, *([vpc_id] if vpc_id else [])}

        in_account = re.compile(rf"arn:[a-z-]+:iam::{account_id}:(role|user)/.+")
        self.admins: dict[str, Future[str | None]] = {
            arn: queries.optional(Query.ADMINS, partial(account.principal_arn, clients, arn), arn, f"whether {arn} exists")
            for arn in settings.target.admins
            if in_account.fullmatch(arn)
        }
        self.endpoints = queries.optional(Query.ENDPOINTS, lambda: ec2.endpoints(clients, vpc_id) if vpc_id else None, None)
        self.vpc = queries.required(Query.VPC, lambda: ec2.vpc(clients, vpc_id) if vpc_id else None)
        self.subnets = queries.required(Query.SUBNETS, lambda: ec2.subnets(clients, subnet_ids) if subnet_ids else {})
        self.groups = queries.required(Query.PLACEMENT_GROUPS, lambda: ec2.placement_groups(clients, groups) if groups else {})
        self.images = queries.required(Query.IMAGES, lambda: ec2.images(clients, image_ids) if image_ids else {})
        self.reservations = [
            queries.required(Query.RESERVATIONS, partial(ec2.reservation, clients, each)) for each in sorted(reservation_ids)
        ]

    def add_to(self, facts: Facts) -> Facts:
        vpc, subnets = self.vpc.result(), self.subnets.result()
        groups, images = self.groups.result(), self.images.result()
        reservations = {each.id: each for future in self.reservations if (each := future.result())}
        existing = {*subnets, *groups, *images, *reservations, *([vpc.id] if vpc else [])}
        principals = {arn: future.result() for arn, future in self.admins.items()}
        missing_admins = {arn for arn, principal in principals.items() if principal is None}
        return replace(
            facts,
            endpoints=self.endpoints.result(),
            admins={arn: principal for arn, principal in principals.items() if principal},
            vpc=vpc,
            subnets=subnets,
            placement_groups=groups,
            images=images,
            reservations=reservations,
            not_found=frozenset(self.ids - existing | missing_admins),
        )
