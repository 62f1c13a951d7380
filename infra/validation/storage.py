"""Rules for all shared file systems, and those for EFS."""

from collections.abc import Iterable, Iterator, Mapping
from ipaddress import IPv4Network
from itertools import combinations

from infra.config.messages import format_value
from infra.config.problems import Problem
from infra.facts.model import Facts, FileSystem, Subnet
from infra.facts.queries import Query
from infra.jobs.volumes import contains_path, find_home_problem, find_path_problem
from infra.naming import LOGIN_USER
from infra.plan.placement import list_vpc_zones
from infra.settings.stack import Settings
from infra.settings.storage import ExistingEfs, ExistingFileSystem
from infra.validation.formats import check_id_format
from infra.validation.pool_paths import format_account
from infra.validation.registry import Topic, register_rule

_ALSO_SYSTEM = ("root", "tmp", "var")
"""Top-level directories where nodes must not mount the shared volume. Jobs may mount volumes there."""
AMI_USERS = ("ec2-user", "ssm-user", "ubuntu")
"""Users of the AMIs for Amazon Linux and Ubuntu, and the user of Session Manager."""


@register_rule()
def check_mount_paths(settings: Settings) -> Iterator[Problem]:
    """Check the mount paths. The user who runs ranks is the login user of an EC2 cluster, or the user in job images."""
    user = LOGIN_USER if settings.is_eks else settings.ec2.user
    paths: list[tuple[str, str]] = []
    for each in settings.storage.file_systems:
        where = f"storage.{each.kind.setting}"
        yield from check_mount_path(f"{where}.mountPath", each.mount_path, user)
        paths.append((f"{where}.mountPath", each.mount_path))
        if settings.is_eks and each.shared_data is not None:
            paths.append((f"{where}.sharedData.mountPath", each.shared_data.mount_path))
    yield from check_overlaps(paths)


def check_overlaps(paths: Iterable[tuple[str, str]]) -> Iterator[Problem]:
    """Check that no mount path hides another one. `paths`: setting and value of each mount path."""
    for (first, above), (second, below) in combinations(paths, 2):
        if contains_path(above, below) or contains_path(below, above):
            yield Problem(second, f"{format_value(below)} and {first} {format_value(above)} overlap. Change one.")


def check_mount_path(where: str, text: str, user: str = LOGIN_USER) -> Iterator[Problem]:
    """Check that jobs and nodes can mount the shared volume at this path. Nodes and images create the home of `user`
    before the volume is mounted."""
    top = text.strip("/").partition("/")[0]
    wrong = "is a system directory" if top in ("", *_ALSO_SYSTEM) and text.startswith("/") else find_path_problem(text)
    homes = (f"/home/{name}" for name in (user, *AMI_USERS))
    wrong = wrong or next((hidden for home in homes if (hidden := find_home_problem(text, home))), None)
    if wrong:
        yield Problem(where, f"{format_value(text)} {wrong}. Use a path such as /shared.")


@register_rule()
def check_existing_file_systems(settings: Settings) -> Iterator[Problem]:
    for each in settings.storage.file_systems:
        if isinstance(each, ExistingFileSystem):
            where = format_id_path(each)
            yield from check_id_format(where, "fs", each.file_system_id, f"an {each.kind.title} file system")
            if not settings.network.is_existing:
                yield Problem(where, "the existing file system is in its own VPC. Set network.vpcId to that VPC.")


def format_id_path(settings: ExistingFileSystem) -> str:
    return f"storage.{settings.kind.setting}.fileSystemId"


def check_file_system(
    settings: Settings,
    facts: Facts,
    existing: ExistingFileSystem,
    file_systems: Mapping[str, FileSystem],
    usable_states: tuple[str, ...],
) -> Iterator[Problem]:
    """Check that an existing file system exists in the stack's VPC, and is ready."""
    name, where, vpc_id = existing.file_system_id, format_id_path(existing), settings.network.vpc_id
    file_system = file_systems.get(name)
    if name in facts.not_found:
        title, account = existing.kind.title, format_account(facts)
        yield Problem(where, f"{format_value(name)} is not an {title} file system of {account}. Use an existing one.")
    if file_system is None:
        return
    if file_system.state not in usable_states:
        yield Problem(where, f"{name} is {file_system.state}. Use one that is {usable_states[0]}.")
    if vpc_id is not None and (elsewhere := sorted(set(file_system.mount_targets.values()) - {vpc_id})):
        yield Problem(where, f"{name} is in {elsewhere[0]}, not in {vpc_id}. Use the same VPC.")


def check_nodes_are_admitted(
    settings: Settings,
    facts: Facts,
    existing: ExistingFileSystem,
    file_systems: Mapping[str, FileSystem],
    ports: tuple[str, ...],
    *,
    within_zone: bool,
) -> Iterator[Problem]:
    """Check that the security groups of an existing file system admit the nodes' subnets on the first of the ports.
    `within_zone`: nodes use only the mount target in their zone."""
    file_system = file_systems.get(existing.file_system_id)
    if file_system is None or file_system.admitted is None or existing.add_ingress_rule:
        return
    for zone, groups in sorted(file_system.admitted.items()):
        sources = frozenset[str]().union(*groups.values())
        subnets = [subnet for subnet in _find_existing_subnets(settings, facts) if subnet.zone == zone or not within_zone]
        if closed := [subnet for subnet in subnets if not _admits_subnet(sources, subnet.cidr, file_system.nodes_groups)]:
            subnet = closed[0]
            yield Problem(
                format_id_path(existing),
                f"{file_system.id} does not admit nodes in {subnet.zone}: no rule of {' or '.join(sorted(groups))} allows TCP "
                f"{ports[0]} from {subnet.id} ({subnet.cidr}). Add rules for TCP {' and '.join(ports)}, or set "
                f"storage.{existing.kind.setting}.addIngressRule: true.",
            )


def _find_existing_subnets(settings: Settings, facts: Facts) -> list[Subnet]:
    """Return the subnets in the settings that exist."""
    return [facts.subnets[subnet_id] for subnet_id in settings.network.subnet_ids if subnet_id in facts.subnets]


def _admits_subnet(sources: frozenset[str], cidr: str, nodes_groups: frozenset[str]) -> bool:
    """Return whether one of the sources covers the subnet or is a security group of the nodes. The entries of prefix
    lists are unknown, so every prefix list counts as covering the subnet.
    """
    network = IPv4Network(cidr)
    return any(
        source in nodes_groups
        or source.startswith("pl-")
        or ("/" in source and network.subnet_of(IPv4Network(source, strict=False)))
        for source in sources
    )


# --- EFS


def _uses_existing_efs(settings: Settings) -> bool:
    return isinstance(settings.storage.efs, ExistingEfs)


@register_rule(Topic.FILE_SYSTEM, reads=(Query.FILE_SYSTEM,), applies=_uses_existing_efs)
def check_existing_efs(settings: Settings, facts: Facts) -> Iterator[Problem]:
    efs = settings.storage.efs
    if not isinstance(efs, ExistingEfs):
        return
    yield from check_file_system(settings, facts, efs, facts.efs, ("available",))
    file_system = facts.efs.get(efs.file_system_id)
    if file_system is not None and set(file_system.mount_targets.values()) <= {settings.network.vpc_id}:
        for zone in list_vpc_zones(settings, facts):
            if zone not in file_system.mount_targets:
                fix = "where nodes may run. Create one there."
                yield Problem(format_id_path(efs), f"{file_system.id} has no mount target in {zone}, {fix}")


@register_rule(Topic.FILE_SYSTEM, reads=(Query.MOUNT_TARGETS,), applies=_uses_existing_efs)
def check_nodes_can_mount_efs(settings: Settings, facts: Facts) -> Iterator[Problem]:
    if isinstance(settings.storage.efs, ExistingEfs):
        yield from check_nodes_are_admitted(settings, facts, settings.storage.efs, facts.efs, ("2049",), within_zone=True)
