"""Rules for the shared file system."""

from collections.abc import Iterator
from ipaddress import IPv4Network

from infra.config.messages import shown
from infra.config.problems import Problem
from infra.facts.model import Facts
from infra.jobs.volumes import find_home_problem, find_path_problem
from infra.naming import LOGIN_USER
from infra.plan.placement import vpc_zones
from infra.settings.stack import Settings
from infra.settings.storage import Efs
from infra.validation import ids
from infra.validation.pool_paths import account

_WHERE = "storage.efs.fileSystemId"
_ALSO_SYSTEM = ("root", "tmp", "var")
"""Top-level directories where nodes must not mount the shared volume. Jobs may mount volumes there."""
AMI_USERS = ("ec2-user", "ssm-user", "ubuntu")
"""Users of the AMIs for Amazon Linux and Ubuntu, and the user of Session Manager."""


def mount_path(settings: Settings) -> Iterator[Problem]:
    efs = settings.storage.efs
    if efs != "none":
        yield from plain_path("storage.efs.mountPath", efs.mount_path, login_user(settings))


def login_user(settings: Settings) -> str:
    """Return the user who runs ranks: the login user of an EC2 cluster, or the user in job images."""
    return LOGIN_USER if settings.is_eks else settings.ec2.user


def plain_path(where: str, text: str, user: str = LOGIN_USER) -> Iterator[Problem]:
    """Check that jobs and nodes can mount the shared volume at this path. Nodes and images create the home of `user`
    before the volume is mounted."""
    top = text.strip("/").partition("/")[0]
    wrong = "is a system directory" if top in ("", *_ALSO_SYSTEM) and text.startswith("/") else find_path_problem(text)
    homes = (f"/home/{name}" for name in (user, *AMI_USERS))
    wrong = wrong or next((hidden for home in homes if (hidden := find_home_problem(text, home))), None)
    if wrong:
        yield Problem(where, f"{shown(text)} {wrong}. Use a path such as /shared.")


def new_or_existing(settings: Settings) -> Iterator[Problem]:
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
    yield from ids.check(_WHERE, "fs", efs.file_system_id)
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


def existing_file_system(settings: Settings, facts: Facts) -> Iterator[Problem]:
    wanted, file_system = settings.storage.existing_file_system_id, facts.file_system
    if wanted in facts.not_found:
        yield Problem(_WHERE, f"{shown(wanted)} does not exist in {account(facts)}. Use an existing file system.")
    if file_system is None:
        return
    if file_system.state != "available":
        yield Problem(_WHERE, f"{wanted} is {file_system.state}. Use one that is available.")
    elsewhere = sorted(set(file_system.mount_targets.values()) - {settings.network.vpc_id})
    if elsewhere and settings.network.is_existing:
        yield Problem(
            _WHERE, f"{wanted} has mount targets in {elsewhere[0]}, not in {settings.network.vpc_id}. Use the same VPC."
        )
    else:
        for zone in vpc_zones(settings, facts):
            if zone not in file_system.mount_targets and settings.network.is_existing:
                yield Problem(_WHERE, f"{wanted} has no mount target in {zone}, where nodes may run. Create one there.")


def nodes_can_mount(settings: Settings, facts: Facts) -> Iterator[Problem]:
    """Check that the security groups of an existing file system's mount targets allow NFS traffic from the nodes'
    subnets."""
    file_system = facts.file_system
    if file_system is None or file_system.admitted is None or settings.storage.adds_ingress_rule:
        return
    subnets = [facts.subnets[one] for one in settings.network.subnet_ids if one in facts.subnets]
    for zone, groups in sorted(file_system.admitted.items()):
        sources = frozenset[str]().union(*groups.values())
        closed = [one for one in subnets if one.zone == zone and not admits(sources, one.cidr, file_system.nodes_groups)]
        if closed:
            yield Problem(
                _WHERE,
                f"{file_system.id} has a mount target in {zone} that does not admit nodes: no rule of "
                f"{' or '.join(groups)} allows TCP 2049 from {closed[0].id} ({closed[0].cidr}). "
                "Add such a rule, or set storage.efs.addIngressRule: true.",
            )


def admits(sources: frozenset[str], cidr: str, nodes_groups: frozenset[str]) -> bool:
    """Return whether one of the sources covers the subnet or is a security group of the nodes. The entries of prefix
    lists are unknown, so every prefix list counts as covering the subnet.
    """
    network = IPv4Network(cidr)
    return any(
        one in nodes_groups or one.startswith("pl-") or ("/" in one and network.subnet_of(IPv4Network(one, strict=False)))
        for one in sources
    )
