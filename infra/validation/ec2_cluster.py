"""Plain EC2 clusters: master, login, AMI, and what is for Kubernetes only."""

import re
from collections.abc import Iterator

from infra.config.messages import one_of, shown
from infra.config.problems import Problem
from infra.facts.model import Facts
from infra.naming import AMI_TAG, OPENMPI_TAG
from infra.plan.placement import pool_zone
from infra.settings.platform import PlatformSettings
from infra.settings.stack import Settings
from infra.validation import ids
from infra.validation.cidrs import documentation, open_to_everyone, parsed
from infra.validation.cluster import retention
from infra.validation.pool_paths import account, pools_with_paths, pools_with_types

_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_SYSTEM_USERS = frozenset({"root", "admin", "daemon", "nobody", "sshd", "ubuntu", "debian", "ec2-user", "ssm-user"})
_KEY = re.compile(
    r"(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)|sk-[a-z0-9-]+@openssh\.com) [A-Za-z0-9+/]{40,}={0,3}( .*)?"
)
MOST_USER_DATA_KEYS = 20
"""User data holds 16 KB."""


def without_kubernetes(settings: Settings) -> Iterator[Problem]:
    way_out = "remove it, a plain EC2 cluster has no Kubernetes"
    if settings.platform != PlatformSettings():
        yield Problem("platform", f"is for Kubernetes; {way_out}")
    if settings.jobs:
        yield Problem("jobs", f"are for Kubernetes; {way_out}")
    for path, pool in pools_with_paths(settings):
        if pool.labels:
            yield Problem(f"{path}.labels", f"are for Kubernetes; {way_out}")
        if pool.ami_id is not None:
            yield Problem(f"{path}.amiId", "is for EKS's nodes; write it to target.amiId, master and workers have one AMI")


def one_pool(settings: Settings) -> Iterator[Problem]:
    number = len(settings.pools)
    if number == 0:
        example = "{name: workers, instanceType: g6.48xlarge, maxSize: 4}"
        yield Problem("pools", f"is missing; name the workers, like `pools: [{example}]`")
    elif number > 1:
        yield Problem(
            "pools", f"has {number} entries; a plain EC2 cluster has one group of workers, make another stack for others"
        )


def login(settings: Settings) -> Iterator[Problem]:
    user, where = settings.ec2.user, "target.user"
    if not _USER.fullmatch(user):
        way_out = "use lower-case letters, digits, - and _, a letter first, at most 32"
        yield Problem(where, f"{shown(user)} is no name for a Linux user; {way_out}")
    elif user in _SYSTEM_USERS:
        yield Problem(where, f"{shown(user)} is a user of the system; choose another, like mpiuser")


def public_keys(settings: Settings) -> Iterator[Problem]:
    keys, path = settings.ec2.ssh.public_keys, "target.ssh.publicKeys"
    if len(keys) > MOST_USER_DATA_KEYS:
        yield Problem(path, f"has {len(keys)} keys; user data holds {MOST_USER_DATA_KEYS}")
    for index, key in enumerate(keys):
        where = f"{path}[{index}]"
        if not _KEY.fullmatch(key):
            way_out = "write the line of a file like ~/.ssh/id_ed25519.pub"
            yield Problem(where, f"{shown(key)} is not a public SSH key; {way_out}")
        elif key in keys[:index]:
            yield Problem(where, f"{shown(key)} is named twice; remove one")


def ssh_cidrs(settings: Settings) -> Iterator[Problem]:
    cidrs, path, network = settings.ec2.ssh.cidrs, "target.ssh.cidrs", settings.network
    for index, text in enumerate(cidrs):
        where, block = f"{path}[{index}]", parsed(text, "203.0.113.0/24")
        if isinstance(block, str):
            yield Problem(where, block)
        if text in cidrs[:index]:
            yield Problem(where, f"{shown(text)} is listed twice; remove one")
    yield from open_to_everyone(path, cidrs, "list your own addresses, or remove it and use Session Manager")
    yield from documentation(path, cidrs)
    if not cidrs:
        return
    way_out = "remove it and use `scripts/cluster ssh`, which needs no open port"
    if network.is_existing:
        yield Problem(path, f"need a public subnet for the master, but network.subnetIds are private; {way_out}")
    elif network.nat == "none":
        yield Problem(path, f"need a public subnet for the master, but natGateways is none; {way_out}")
    if not settings.ec2.ssh.public_keys:
        yield Problem("target.ssh.publicKeys", "is missing, but cidrs opens the SSH port; name the keys that may come in")


def ami_id(settings: Settings) -> Iterator[Problem]:
    if settings.ec2.ami_id is not None:
        yield from ids.check("target.amiId", "ami", settings.ec2.ami_id)


def log_retention(settings: Settings) -> Iterator[Problem]:
    yield from retention(settings.ec2.log_retention_days)


def ami(settings: Settings, facts: Facts) -> Iterator[Problem]:
    """One AMI for master and workers: there must be one, of the architecture of both."""
    where, target, head = "target.amiId", settings.ec2, facts.instance_types.get(settings.ec2.master_type)
    for path, pool, workers in pools_with_types(settings, facts):
        if head and head.architecture != workers.architecture:
            other = f"but the master's {head.name} is {head.architecture}; choose types of one architecture, they share an AMI"
            yield Problem(f"{path}.instanceType", f"{shown(pool.instance_type)} is {workers.architecture}, {other}")
    if facts.ami is None:
        named = target.ami_id or facts.existing.ami_id
        if named:
            way_out = "share it, name another, or remove it" if target.ami_id else "name another"
            yield Problem(where, f"{shown(named)} is not to be found in {account(facts)}; {way_out}")
        elif head:
            tags = f"{AMI_TAG}=ec2 and {OPENMPI_TAG}={target.openmpi}"
            way_out = "build one (docs/operations.md), or name yours"
            yield Problem(
                where, f"is missing, and {account(facts)} has no {head.architecture} AMI with the tags {tags}; {way_out}"
            )
    elif head and facts.ami.architecture != head.architecture:
        other = f"{head.name} is {head.architecture}"
        yield Problem(where, f"{facts.ami.id} is for {facts.ami.architecture}, but {other}; name one of that architecture")


def master_zone(settings: Settings, facts: Facts) -> Iterator[Problem]:
    """The master is where the workers are: traffic between zones costs, and a placement group is in one."""
    name = settings.ec2.master_type
    for pool in settings.pools[:1]:
        zone, offered = pool_zone(pool, settings, facts), facts.offerings.get(name, frozenset())
        if zone and name in facts.instance_types and zone not in offered:
            both = sorted(offered & facts.offerings.get(pool.instance_type, frozenset()))
            way_out = f"choose another type, or a zone that offers both: {one_of(both)}" if both else "choose another type"
            yield Problem("target.masterType", f"{shown(name)} is not offered in {zone}, where the workers are; {way_out}")
