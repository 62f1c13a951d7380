"""Rules for EC2 clusters (without Kubernetes): head node, login, AMI, and settings that need Kubernetes."""

import re
from collections.abc import Iterator

from infra.config.messages import format_value, join_with_or
from infra.config.problems import Problem
from infra.facts.model import Facts
from infra.facts.queries import Query
from infra.naming import AMI_TAG, OPENMPI_TAG
from infra.plan.placement import choose_pool_zone
from infra.settings.platform import PlatformSettings
from infra.settings.stack import Settings
from infra.validation.cluster import check_retention_days
from infra.validation.formats import check_id_format, check_no_example_addresses, check_not_open_to_internet, parse_cidr
from infra.validation.pool_paths import format_account, list_pools_with_paths, list_pools_with_types
from infra.validation.registry import EC2, Topic, register_rule

_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_SYSTEM_USERS = frozenset({"root", "admin", "daemon", "nobody", "sshd", "ubuntu", "debian", "ec2-user", "ssm-user"})
_SECURITY_KEY = re.compile(r"sk-[a-z0-9-]+@openssh\.com [A-Za-z0-9+/]{40,}={0,3}( .*)?")
"""Public keys of FIDO security keys, which the cryptography package cannot load."""
MOST_USER_DATA_KEYS = 20
"""Maximum number of SSH keys. User data contains all keys and is limited to 16 KB."""


@register_rule(target=EC2)
def check_no_kubernetes_settings(settings: Settings) -> Iterator[Problem]:
    fix = "Remove it: EC2 clusters run without Kubernetes."
    if settings.platform != PlatformSettings():
        yield Problem("platform", f"requires Kubernetes. {fix}")
    if settings.jobs:
        yield Problem("jobs", f"requires Kubernetes. {fix}")
    for path, pool in list_pools_with_paths(settings):
        if pool.labels:
            yield Problem(f"{path}.labels", f"requires Kubernetes. {fix}")
        if pool.ami_id is not None:
            yield Problem(
                f"{path}.amiId", "applies only to EKS. Set target.amiId instead: the head node and the workers share one AMI."
            )


@register_rule(target=EC2)
def check_single_pool(settings: Settings) -> Iterator[Problem]:
    number = len(settings.pools)
    if number == 0:
        example = "{name: workers, instanceType: g6.48xlarge, maxSize: 4}"
        yield Problem("pools", f"is missing. Define the workers, such as `pools: [{example}]`.")
    elif number > 1:
        yield Problem(
            "pools", f"has {number} entries, but an EC2 cluster has one group of workers. Create another stack for the others."
        )


@register_rule(target=EC2)
def check_user(settings: Settings) -> Iterator[Problem]:
    user, where = settings.ec2.user, "target.user"
    if not _USER.fullmatch(user):
        fix = "Use at most 32 lowercase letters, digits, - and _, starting with a letter."
        yield Problem(where, f"{format_value(user)} is not a valid Linux user name. {fix}")
    elif user in _SYSTEM_USERS:
        yield Problem(where, f"{format_value(user)} is a system user. Choose another name, such as mpiuser.")


@register_rule(target=EC2)
def check_public_keys(settings: Settings) -> Iterator[Problem]:
    keys, path = settings.ec2.ssh.public_keys, "target.ssh.publicKeys"
    if len(keys) > MOST_USER_DATA_KEYS:
        yield Problem(path, f"has {len(keys)} keys, but user data has room for only {MOST_USER_DATA_KEYS}")
    for index, key in enumerate(keys):
        where = f"{path}[{index}]"
        if not _is_public_key(key):
            yield Problem(
                where, f"{format_value(key)} is not a public SSH key. Copy the line from a file such as ~/.ssh/id_ed25519.pub."
            )
        elif key in keys[:index]:
            yield Problem(where, f"{format_value(key)} is listed twice. Remove one.")


def _is_public_key(text: str) -> bool:
    """True if the text is exactly one valid line of a `.pub` file. The user data script writes the text to
    authorized_keys."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_ssh_public_key  # slow to import, and needed only here

    if len(text.splitlines()) != 1:
        return False
    if _SECURITY_KEY.fullmatch(text):
        return True
    try:
        load_ssh_public_key(text.encode())
    except (ValueError, UnsupportedAlgorithm):
        return False
    return True


@register_rule(target=EC2)
def check_ssh_cidrs(settings: Settings) -> Iterator[Problem]:
    cidrs, path, network = settings.ec2.ssh.cidrs, "target.ssh.cidrs", settings.network
    for index, text in enumerate(cidrs):
        where, block = f"{path}[{index}]", parse_cidr(text, "203.0.113.0/24")
        if isinstance(block, str):
            yield Problem(where, block)
        if text in cidrs[:index]:
            yield Problem(where, f"{format_value(text)} is listed twice. Remove one.")
    yield from check_not_open_to_internet(path, cidrs, "List your own addresses, or remove this CIDR and use Session Manager.")
    yield from check_no_example_addresses(path, cidrs)
    if not cidrs:
        return
    fix = "Remove it and use `scripts/cluster ssh`, which needs no open port."
    if network.is_existing:
        yield Problem(path, f"requires a public subnet for the head node, but network.subnetIds are private. {fix}")
    elif network.nat == "none":
        yield Problem(path, f"requires a public subnet for the head node, but natGateways is none. {fix}")
    if not settings.ec2.ssh.public_keys:
        yield Problem("target.ssh.publicKeys", "required because cidrs opens the SSH port. List the keys that may log in.")


@register_rule(target=EC2)
def check_ami_id(settings: Settings) -> Iterator[Problem]:
    if settings.ec2.ami_id is not None:
        yield from check_id_format("target.amiId", "ami", settings.ec2.ami_id)


@register_rule(target=EC2)
def check_flow_log_retention(settings: Settings) -> Iterator[Problem]:
    yield from check_retention_days(settings.ec2.log_retention_days)


@register_rule(Topic.AMIS, target=EC2, reads=(Query.AMI, Query.INSTANCE_TYPES))
def check_ami(settings: Settings, facts: Facts) -> Iterator[Problem]:
    """Require one AMI that fits the architecture of both the head node and the workers."""
    where, target, head = "target.amiId", settings.ec2, facts.instance_types.get(settings.ec2.head_node_type)
    for path, pool, workers in list_pools_with_types(settings, facts):
        if head and head.architecture != workers.architecture:
            fix = "Choose types with the same architecture, because they share an AMI."
            differs = f"but the head node's {head.name} is {head.architecture}"
            yield Problem(
                f"{path}.instanceType", f"{format_value(pool.instance_type)} is {workers.architecture}, {differs}. {fix}"
            )
    if facts.ami is None:
        ami_id = target.ami_id or facts.existing.ami_id
        if ami_id:
            fix = (
                "Share the AMI with this account, use another AMI, or remove the setting."
                if target.ami_id
                else "Use another AMI."
            )
            yield Problem(where, f"{format_value(ami_id)} was not found in {format_account(facts)}. {fix}")
        elif head:
            tags = f"{AMI_TAG}=ec2 and {OPENMPI_TAG}={target.openmpi}"
            fix = "Build an AMI (docs/guides/amis.md), or set your own."
            yield Problem(
                where, f"is missing, and {format_account(facts)} has no {head.architecture} AMI with the tags {tags}. {fix}"
            )
    elif head and facts.ami.architecture != head.architecture:
        differs = f"{head.name} is {head.architecture}"
        yield Problem(where, f"{facts.ami.id} is for {facts.ami.architecture}, but {differs}. Use an AMI of that architecture.")


@register_rule(Topic.TYPES, target=EC2, reads=(Query.INSTANCE_TYPES, Query.ZONES))
def check_head_node_zone(settings: Settings, facts: Facts) -> Iterator[Problem]:
    """Check that the workers' zone offers the head node's type. The head node runs in the same zone, because AWS bills
    cross-zone traffic and a placement group cannot span zones."""
    name = settings.ec2.head_node_type
    for pool in settings.pools[:1]:
        zone, offered = choose_pool_zone(pool, settings, facts), facts.offerings.get(name, frozenset())
        if zone and name in facts.instance_types and zone not in offered:
            both = sorted(offered & facts.offerings.get(pool.instance_type, frozenset()))
            fix = f"Choose another type, or a zone that offers both: {join_with_or(both)}." if both else "Choose another type."
            yield Problem("target.headNodeType", f"{format_value(name)} is not offered in {zone}, where the workers are. {fix}")
