"""Run all plan-time queries (AWS, upstream manifests) in parallel, because each query takes a network round trip."""

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from infra.facts import account, ebs_key, ec2, ec2_cluster, efs, eks, fsx, manifests, price_list, security_groups
from infra.facts.clients import Clients, Denied, query
from infra.facts.instance_types import InstanceType
from infra.facts.model import Ami, Caller, Existing, Facts, FactsError, LustreFileSystem
from infra.facts.price_list import Wanted
from infra.facts.queries import Query
from infra.facts.service_quotas import NODE_GROUPS, exceeds_default_quota
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
    """Queries in progress. A failed required query stops the plan; a failed optional query is listed in `unchecked`.

    `field` names the field of `Facts` that gets the result. Without a result, the field keeps its default.
    """

    def __init__(self, threads: ThreadPoolExecutor, region: str, arn: str) -> None:
        self._threads, self._region, self._arn = threads, region, arn
        self._unchecked: dict[Query, list[str]] = defaultdict(list)
        self._fields: dict[str, Future[Any]] = {}

    def start_required_query(self, kind: Query, call: Callable[[], Answer], field: str = "") -> "Future[Answer]":
        return self._start_query(field, self._run_required_query, kind, call)

    def start_optional_query(
        self, kind: Query, call: Callable[[], Answer], default: Answer, subject: str = "", field: str = ""
    ) -> "Future[Answer]":
        """Start an optional query; if it fails, the field keeps its default. `subject` names what the query reads, if
        the query's own subject does not."""
        return self._start_query(field, self._run_optional_query, kind, call, default, subject or kind.subject)

    def _start_query(self, field: str, run: Callable[..., Answer], *arguments: Any) -> "Future[Answer]":
        future = self._threads.submit(run, *arguments)
        if field:
            self._fields[field] = future
        return future

    def add_unchecked_sentence(self, kind: Query, sentence: str) -> None:
        self._unchecked[kind].append(sentence)

    @property
    def values(self) -> dict[str, Any]:
        """Maps each field of `Facts` to the result of its query."""
        return {field: value for field, future in self._fields.items() if (value := future.result()) is not None}

    @property
    def unchecked_sentences(self) -> dict[Query, tuple[str, ...]]:
        return {kind: tuple(sorted(sentences)) for kind, sentences in self._unchecked.items()}

    def _run_required_query(self, kind: Query, call: Callable[[], Answer]) -> Answer:
        try:
            return self._run_query(kind, call)
        except Denied as denied:
            raise FactsError(f"{self._arn} may not call {denied}, which planning requires. Allow it") from None

    def _run_optional_query(self, kind: Query, call: Callable[[], Answer], default: Answer, subject: str) -> Answer:
        try:
            return self._run_query(kind, call)
        except Denied as denied:
            self.add_unchecked_sentence(kind, f"{subject}: {self._arn} may not call {denied}")
        except FactsError as error:
            self.add_unchecked_sentence(kind, f"{subject}: {error}")
        return default

    def _run_query(self, kind: Query, call: Callable[[], Answer]) -> Answer:
        """Run one query. Tests record here which operations each query calls."""
        return query(self._region, call)


def gather_facts(settings: Settings) -> Facts:
    """Query AWS for the facts that the settings require. Raises FactsError."""
    clients = query(settings.region, lambda: Clients(settings.region))
    caller = account.read_caller(clients)
    with ThreadPoolExecutor(PARALLEL) as threads:
        return _gather_with_queries(settings, clients, caller, _Queries(threads, settings.region, caller.arn))


def _gather_with_queries(settings: Settings, clients: Clients, caller: Caller, queries: _Queries) -> Facts:
    names, role, stack = settings.instance_types, account.parse_role_name(caller.arn), settings.stack
    types = queries.start_required_query(Query.INSTANCE_TYPES, lambda: ec2.read_instance_types(clients, names), "instance_types")
    offerings = queries.start_required_query(Query.INSTANCE_TYPES, lambda: ec2.list_zone_offerings(clients, names), "offerings")
    stack_zones = queries.start_required_query(Query.OWN_NETWORK, lambda: ec2.list_stack_zones(clients, STACK_TAG, stack))
    stack_vpcs = queries.start_required_query(Query.OWN_NETWORK, lambda: ec2.list_stack_vpcs(clients, STACK_TAG, stack))
    existing = queries.start_required_query(
        Query.EKS_CLUSTER if settings.is_eks else Query.WORKERS, lambda: _read_existing(settings, clients)
    )
    principal = queries.start_optional_query(
        Query.CALLER_ROLE, lambda: account.read_role_arn(clients, role) if role else caller.principal_arn, None
    )
    versions = queries.start_optional_query(
        Query.KUBERNETES_VERSIONS,
        lambda: eks.read_kubernetes_versions(clients) if settings.is_eks else eks.Versions(),
        eks.Versions(),
    )
    _query_account(settings, clients, caller, queries)
    quotas_needed, without_quota = account.list_required_quotas(settings)
    quotas = queries.start_optional_query(
        Query.VCPU_QUOTAS, lambda: account.read_quota_values(clients, quotas_needed), None, field="quotas"
    )
    storage_facts = _StorageFacts(settings, clients, queries)
    admins = _query_named_resources(settings, clients, caller, queries)

    if any(name not in types.result() or not offerings.result().get(name) for name in names):
        queries.start_required_query(Query.INSTANCE_TYPES, lambda: ec2.list_instance_type_names(clients), "type_names")
    for name in without_quota:
        queries.add_unchecked_sentence(Query.VCPU_QUOTAS, f"vCPU quota of {name}: not in AWS's list of quotas")
    limits, resources = quotas.result(), existing.result()
    leftover_logs = queries.start_optional_query(
        Query.CONTROL_PLANE_LOGS, lambda: _has_leftover_logs(settings, clients, resources), default=False
    )
    queries.start_required_query(Query.AMI, lambda: _select_ami(settings, clients, resources, types.result()), "ami")
    for code in sorted(quotas_needed.keys() - limits.keys()) if limits is not None else ():
        queries.add_unchecked_sentence(Query.VCPU_QUOTAS, f"vCPU quota {code} ({quotas_needed[code].name}): AWS reports no value")
    own_vpc = next(iter(sorted(stack_vpcs.result(), key=lambda vpc: vpc.id != resources.cluster_vpc_id)), None)
    principals = {arn: future.result() for arn, future in admins.items()}
    facts = Facts(
        region=settings.region,
        partition=caller.arn.split(":")[1],
        caller=replace(caller, principal_arn=principal.result()),
        kubernetes_versions=versions.result().offered,
        extended_support=versions.result().extended,
        today=eks.get_current_date(),
        existing=replace(resources, zones=stack_zones.result(), own_vpc=own_vpc, has_leftover_logs=leftover_logs.result()),
        admins={arn: principal for arn, principal in principals.items() if principal},
        **queries.values,
    )
    missing = {*_find_missing_resources(settings, facts), *(arn for arn, principal in principals.items() if principal is None)}
    facts = storage_facts.add_to_facts(replace(facts, not_found=frozenset(missing)))
    return replace(facts, unchecked=queries.unchecked_sentences)


def _has_leftover_logs(settings: Settings, clients: Clients, existing: Existing) -> bool:
    is_absent = settings.is_eks and existing.cluster_version is None
    return is_absent and eks.has_leftover_logs(clients, Naming(settings.stack).control_plane_logs)


def _read_existing(settings: Settings, clients: Clients) -> Existing:
    if settings.is_eks:
        return eks.read_existing_cluster(clients, settings.cluster_name)
    return ec2_cluster.read_existing_cluster(clients, settings.stack)


def _select_ami(settings: Settings, clients: Clients, existing: Existing, types: Mapping[str, InstanceType]) -> Ami | None:
    """Return the AMI of an EC2 cluster: from the settings, else from its workers, else the account's newest."""
    if settings.is_eks:
        return None
    ami_id = settings.ec2.ami_id or existing.ami_id
    if ami_id:
        return ec2_cluster.read_ami(clients, ami_id)
    head = types.get(settings.ec2.head_node_type)
    return ec2_cluster.find_newest_ami(clients, head.architecture if head else "x86_64", settings.ec2.openmpi)


def list_stack_manifests(settings: Settings) -> tuple[Pinned, ...]:
    return list_platform_manifests(settings.platform) if settings.installs_platform else ()


def list_platform_manifests(platform: CommonPlatformSettings) -> tuple[Pinned, ...]:
    """Return the upstream manifests that the enabled parts of the platform need."""
    return (
        *((NVIDIA_MANIFEST,) if platform.device_plugin else ()),
        *((MPI_OPERATOR_MANIFEST,) if platform.mpi_operator else ()),
        *((*KUEUE_CRDS, KUEUE_ROLE, KUEUE_WEBHOOKS) if platform.queue else ()),
        *(TRAINER_MANIFESTS if platform.trainer else ()),
    )


def _query_account(settings: Settings, clients: Clients, caller: Caller, queries: _Queries) -> None:
    """Query the parts of the account in this Region on which the settings depend."""
    partition, mirror = caller.arn.split(":")[1], settings.platform.manifest_mirror
    queries.start_required_query(Query.ZONES, lambda: ec2.list_zones(clients), "zones")
    queries.start_required_query(
        Query.MANIFESTS, lambda: manifests.load_manifests(list_stack_manifests(settings), mirror), "manifests"
    )
    queries.start_optional_query(
        Query.VCPUS_IN_USE, lambda: account.count_vcpus_in_use(clients, settings.stack), None, field="in_use"
    )
    queries.start_optional_query(
        Query.EBS_KEY, lambda: ebs_key.read_default_key(clients, partition, caller.account), None, field="ebs_key"
    )
    if settings.is_eks and (version := settings.eks.kubernetes_version) in LIVE_KUBERNETES_VERSIONS:
        queries.start_optional_query(
            Query.ADDON_VERSIONS, lambda: eks.read_addon_versions(clients, version), None, field="addon_versions"
        )
    if exceeds_default_quota(settings):
        read_quota = partial(account.read_quota_value, clients, "eks", NODE_GROUPS.code)
        queries.start_optional_query(Query.NODE_GROUP_QUOTA, read_quota, None, field="node_groups_allowed")
    if settings.network.has_interface_endpoints and not settings.network.is_existing:
        queries.start_optional_query(
            Query.ENDPOINT_SERVICES, lambda: ec2.list_endpoint_services(clients), None, field="endpoint_services"
        )
    if settings.budget.is_set:  # not an optional query: the bill reports each missing price
        queries.start_required_query(Query.PRICES, lambda: price_list.read(Wanted.from_settings(settings)), "prices")


def _query_named_resources(
    settings: Settings, clients: Clients, caller: Caller, queries: _Queries
) -> "dict[str, Future[str | None]]":
    """Query the existing resources named in the settings. Return the queries of cluster admins, by ARN."""
    vpc_id, subnet_ids, pools = settings.network.vpc_id, settings.network.subnet_ids, settings.pools
    groups = {name for pool in pools if (name := pool.own_placement_group)}
    image_ids = {pool.ami_id for pool in pools if pool.ami_id}
    reservation_ids = {pool.reservation_id for pool in pools if pool.reservation_id}
    if vpc_id:
        queries.start_required_query(Query.VPC, lambda: ec2.read_vpc(clients, vpc_id), "vpc")
        queries.start_optional_query(Query.ENDPOINTS, lambda: ec2.list_vpc_endpoints(clients, vpc_id), None, field="endpoints")
    if subnet_ids:
        queries.start_required_query(Query.SUBNETS, lambda: ec2.read_subnets(clients, subnet_ids), "subnets")
    if groups:
        queries.start_required_query(
            Query.PLACEMENT_GROUPS, lambda: ec2.read_placement_groups(clients, groups), "placement_groups"
        )
    if image_ids:
        queries.start_required_query(Query.IMAGES, lambda: ec2.read_image_architectures(clients, image_ids), "images")
    if reservation_ids:
        queries.start_required_query(Query.RESERVATIONS, lambda: ec2.read_reservations(clients, reservation_ids), "reservations")
    in_account = re.compile(rf"arn:[a-z-]+:iam::{caller.account}:(role|user)/.+")
    return {
        arn: queries.start_optional_query(
            Query.ADMINS, partial(account.find_principal_arn, clients, arn), arn, f"whether {arn} exists"
        )
        for arn in settings.target.admins
        if in_account.fullmatch(arn)
    }


def _find_missing_resources(settings: Settings, facts: Facts) -> set[str]:
    """Return the IDs and names in the settings that do not exist."""
    of_pools = (name for pool in settings.pools for name in (pool.own_placement_group, pool.ami_id, pool.reservation_id))
    named = {*settings.network.subnet_ids, settings.network.vpc_id, *of_pools}
    vpc_ids = {facts.vpc.id} if facts.vpc else set()
    existing = {*vpc_ids, *facts.subnets, *facts.placement_groups, *facts.images, *facts.reservations}
    return {name for name in named if name and name not in existing}


_Mounts = tuple[efs.Admitted, frozenset[str]]
"""Sources from which an existing file system's mount targets allow NFS traffic, and security groups of the nodes."""


class _StorageFacts:
    """Queries about the file systems of a stack, and about what the stack file names for new ones."""

    def __init__(self, settings: Settings, clients: Clients, queries: _Queries) -> None:
        storage, naming = settings.storage, Naming(settings.stack)
        efs_id = storage.efs.file_system_id if isinstance(storage.efs, ExistingEfs) else None
        lustre_id = storage.fsx.file_system_id if isinstance(storage.fsx, ExistingLustre) else None
        self._ids = {name for name in (efs_id, lustre_id) if name}
        new = storage.new_lustre
        own = {STACK_TAG: settings.stack, "Name": naming.name("lustre-file-system")}
        key = new.kms_key_arn if new else None
        bucket = new.data_repository.bucket if new and new.data_repository else None

        def read_node_security_groups() -> frozenset[str]:
            nodes = {STACK_TAG: settings.stack, "Name": naming.name("nodes")}
            return security_groups.find_node_security_groups(clients, nodes=nodes, cluster=naming.cluster)

        def read_mounts() -> _Mounts | None:
            return (efs.read_admitted_sources(clients, efs_id), read_node_security_groups()) if efs_id else None

        def read_lustre() -> LustreFileSystem | None:
            file_system = fsx.read_file_system(clients, lustre_id) if lustre_id else None
            return replace(file_system, nodes_groups=read_node_security_groups()) if file_system else None

        self._efs = queries.start_required_query(
            Query.FILE_SYSTEM, lambda: efs.read_file_system(clients, efs_id) if efs_id else None
        )
        if isinstance(storage.efs, ExistingEfs) and storage.efs.add_ingress_rule:
            # This query is required: without its result, `up` would delete the rules that the stack has added to these groups.
            self._mounts = queries.start_required_query(Query.MOUNT_TARGETS, read_mounts)
        else:
            subject = f"security groups of {efs_id}'s mount targets"
            self._mounts = queries.start_optional_query(Query.MOUNT_TARGETS, read_mounts, None, subject)
        self._lustre = queries.start_required_query(Query.LUSTRE, read_lustre)
        self._own = queries.start_required_query(Query.LUSTRE, lambda: fsx.find_own_file_system(clients, own) if new else None)
        if key:
            read_key_state = partial(fsx.read_key_state, clients, key)
            queries.start_optional_query(Query.LUSTRE_KEY, read_key_state, None, f"key of FSx {key}", "lustre_key_state")
        if bucket:
            read_region = partial(fsx.read_bucket_region, clients, bucket)
            queries.start_optional_query(Query.BUCKET, lambda: read_region() or "", None, f"bucket {bucket}", "bucket_region")

    def add_to_facts(self, facts: Facts) -> Facts:
        file_system, mounts, lustre = self._efs.result(), self._mounts.result(), self._lustre.result()
        if file_system is not None and mounts is not None:
            file_system = replace(file_system, admitted=mounts[0], nodes_groups=mounts[1])
        existing = {each.id for each in (file_system, lustre) if each}
        return replace(
            facts,
            efs={file_system.id: file_system} if file_system else {},
            lustre={lustre.id: lustre} if lustre else {},
            existing=replace(facts.existing, lustre=self._own.result()),
            not_found=facts.not_found | self._ids - existing,
        )
