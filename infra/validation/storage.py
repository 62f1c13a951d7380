"""Rules for the shared file system."""

from collections.abc import Iterator
from ipaddress import IPv4Network

from infra.config.messages import shown
from infra.config.problems import Problem
from infra.facts.model import Facts, Subnet
from infra.facts.queries import Query
from infra.jobs.volumes import find_home_problem, find_path_problem
from infra.naming import LOGIN_USER
from infra.plan.placement import vpc_zones
from infra.settings.stack import Settings
from infra.settings.storage import Efs
from infra.validation.formats import check_id
from infra.validation.pool_paths import account_text
from infra.validation.registry import Topic, rule

_WHERE = "storage.efs.fileSystemId"
_ALSO_SYSTEM = ("root", "tmp", "var")
"""Top-level directories where nodes must not mount the shared volume. Jobs may mount volumes there."""
AMI_USERS = ("ec2-user", "ssm-user", "ubuntu")
"""Users of the AMIs for Amazon Linux and Ubuntu, and the user of Session Manager."""


@rule()
def check_efs_mount_path(settings: Settings) -> Iterator[Problem]:
    efs = settings.storage.efs
    if efs != "none":
        yield from check_mount_path("storage.efs.mountPath", efs.mount_path, login_user(settings))


def login_user(settings: Settings) -> str:
    """Return the user who runs ranks: the login user of an EC2 cluster, or the user in job images."""
    return LOGIN_USER if settings.is_eks else settings.ec2.user


def check_mount_path(where: str, text: str, user: str = LOGIN_USER) -> Iterator[Problem]:
    """Check that jobs and nodes can mount the shared volume at this path. Nodes and images create the home of `user`
    before the volume is mounted."""
    top = text.strip("/").partition("/")[0]
    wrong = "is a system directory" if top in ("", *_ALSO_SYSTEM) and text.startswith("/") else find_path_problem(text)
    homes = (f"/home/{name}" for name in (user, *AMI_USERS))
    wrong = wrong or next((hidden for home in homes if (hidden := find_home_problem(text, home))), None)
    if wrong:
        yield Problem(where, f"{shown(text)} {wrong}. Use a path such as /shared.")


@rule()
def check_efs_settings(settings: Settings) -> Iterator[Problem]:
    efs = settings.storage.efs
    if efs == "none":
        return
    if efs.file_system_id is None:
        if efs.add_ingress_rule:
            yield Problem(
                "storage.efs.addIngressRule",
                "applies only to an existing file system; a new one always admits nodes. Set fileSystemId, or remove it.",
            )
        return
    yield from check_id(_WHERE, "fs", efs.file_system_id)
    for name, is_set in _only_new(efs):
        if is_set:
            yield Problem(
                f"storage.efs.{name}", "applies to a new file system, but fileSystemId names an existing one. Remove one of them."
            )
    if not settings.network.is_existing:
        yield Problem(
            _WHERE, "names an existing file system, which has mount targets in its own VPC. Set network.vpcId to that VPC."
        )


def _only_new(efs: Efs) -> Iterator[tuple[str, bool]]:
    yield "backup", efs.backup is not None
    yield "infrequentAccessAfterDays", efs.infrequent_access_after_days is not None
    yield "protect", efs.protect


def _has_existing_efs(settings: Settings) -> bool:
    return settings.storage.existing_file_system_id is not None


@rule(Topic.FILE_SYSTEM, reads=(Query.FILE_SYSTEM,), applies=_has_existing_efs)
def check_file_system(settings: Settings, facts: Facts) -> Iterator[Problem]:
    file_system_id, file_system = settings.storage.existing_file_system_id, facts.file_system
    if file_system_id in facts.not_found:
        yield Problem(_WHERE, f"{shown(file_system_id)} does not exist in {account_text(facts)}. Use an existing file system.")
    if file_system is None:
        return
    if file_system.state != "available":
        yield Problem(_WHERE, f"{file_system_id} is {file_system.state}. Use one that is available.")
    elsewhere = sorted(set(file_system.mount_targets.values()) - {settings.network.vpc_id})
    if elsewhere and settings.network.is_existing:
        yield Problem(
            _WHERE, f"{file_system_id} has mount targets in {elsewhere[0]}, not in {settings.network.vpc_id}. Use the same VPC."
        )
    else:
        for zone in vpc_zones(settings, facts):
            if zone not in file_system.mount_targets and settings.network.is_existing:
                yield Problem(_WHERE, f"{file_system_id} has no mount target in {zone}, where nodes may run. Create one there.")


@rule(Topic.FILE_SYSTEM, reads=(Query.MOUNT_TARGETS,), applies=_has_existing_efs)
def check_nodes_can_mount(settings: Settings, facts: Facts) -> Iterator[Problem]:
    """Check that the security groups of an existing file system's mount targets allow NFS traffic from the nodes'
    subnets."""
    file_system = facts.file_system
    if file_system is None or file_system.admitted is None or settings.storage.adds_ingress_rule:
        return
    subnets = existing_subnets(settings, facts)
    for zone, groups in sorted(file_system.admitted.items()):
        sources = frozenset[str]().union(*groups.values())
        in_zone = [subnet for subnet in subnets if subnet.zone == zone]
        if closed := [subnet for subnet in in_zone if not admits(sources, subnet.cidr, file_system.nodes_groups)]:
            yield Problem(
                _WHERE,
                f"{file_system.id} has a mount target in {zone} that does not admit nodes: no rule of "
                f"{' or '.join(groups)} allows TCP 2049 from {closed[0].id} ({closed[0].cidr}). "
                "Add such a rule, or set storage.efs.addIngressRule: true.",
            )


def existing_subnets(settings: Settings, facts: Facts) -> list[Subnet]:
    """Return the subnets in the settings that exist."""
    return [facts.subnets[subnet_id] for subnet_id in settings.network.subnet_ids if subnet_id in facts.subnets]


def admits(sources: frozenset[str], cidr: str, nodes_groups: frozenset[str]) -> bool:
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
