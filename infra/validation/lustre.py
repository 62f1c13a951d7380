"""Rules for the FSx for Lustre file system.

Sizes and throughput: https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateFileSystem.html
"""

import re
from collections.abc import Iterator

from infra.config.messages import shown
from infra.config.problems import Problem
from infra.facts.model import Facts
from infra.plan.placement import vpc_zones
from infra.settings.stack import Settings
from infra.settings.storage import DataRepository, Fsx
from infra.validation import ids
from infra.validation.pool_paths import account
from infra.validation.storage import admits, login_user, plain_path
from infra.versions import KUBERNETES_VERSIONS, WITHOUT_LUSTRE_CLIENT

_WHERE = "storage.fsx"
_SMALLEST, _STEP = 1200, 2400
_KEY = re.compile(r"arn:aws[a-z-]*:kms:([a-z0-9-]+):[0-9]{12}:key/[A-Za-z0-9-]+")
_EXAMPLE_KEY = "arn:aws:kms:us-west-2:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
_WITHOUT_CLIENT = {"Ubuntu 24.04": "7.0"}
"""Systems of the Deep Learning AMIs with a kernel for which no Lustre client is known:
https://docs.aws.amazon.com/dlami/latest/devguide/appendix-ami-release-notes.html, read 2026-11-22. The AMI for Ubuntu
22.04 has kernel 6.8."""
_PATH = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[^/]+)*/?")


def mount_path(settings: Settings) -> Iterator[Problem]:
    lustre, efs = settings.storage.lustre, settings.storage.efs
    if lustre is None:
        return
    where = f"{_WHERE}.mountPath"
    yield from plain_path(where, lustre.mount_path, login_user(settings))
    if efs != "none" and _overlap(lustre.mount_path, efs.mount_path):
        yield Problem(where, f"{shown(lustre.mount_path)} and storage.efs.mountPath {shown(efs.mount_path)} overlap. Change one.")


def _overlap(one: str, other: str) -> bool:
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")


def new_or_existing(settings: Settings) -> Iterator[Problem]:
    lustre = settings.storage.lustre
    if lustre is None:
        return
    if lustre.file_system_id is None:
        if lustre.add_ingress_rule:
            yield Problem(
                f"{_WHERE}.addIngressRule",
                "applies only to an existing file system; a new one always admits nodes. Set fileSystemId, or remove it.",
            )
        return
    yield from ids.check(f"{_WHERE}.fileSystemId", "fs", lustre.file_system_id, "an FSx file system")
    for name, is_set in _only_new(lustre):
        if is_set:
            yield Problem(
                f"{_WHERE}.{name}", "applies to a new file system, but fileSystemId names an existing one. Remove one of them."
            )
    if not settings.network.is_existing:
        yield Problem(f"{_WHERE}.fileSystemId", "the existing file system is in its own VPC. Set network.vpcId to that VPC.")


def _only_new(lustre: Fsx) -> Iterator[tuple[str, bool]]:
    yield "deployment", lustre.deployment is not None
    yield "sizeGib", lustre.size_gib is not None
    yield "throughputPerTib", lustre.throughput_per_tib is not None
    yield "compression", lustre.compression is not None
    yield "kmsKeyArn", lustre.kms_key_arn is not None
    yield "zone", lustre.zone is not None
    yield "dataRepository", lustre.data_repository is not None
    yield "protect", lustre.protect


def capacity(settings: Settings) -> Iterator[Problem]:
    """Check size and throughput against the deployment type."""
    lustre = settings.storage.lustre
    if lustre is None:
        return
    size = lustre.size_gib
    if size is not None and size != _SMALLEST and (size < _STEP or size % _STEP):
        nearest = max(_STEP, -(-size // _STEP) * _STEP) if size > _SMALLEST else _SMALLEST
        yield Problem(f"{_WHERE}.sizeGib", f"must be 1200 or a multiple of 2400 (got {size}). Set {nearest}.")
    if not lustre.is_persistent and lustre.throughput_per_tib is not None:
        yield Problem(f"{_WHERE}.throughputPerTib", "applies to PERSISTENT_2; SCRATCH_2 always has 200 MB/s per TiB. Remove it.")


def key(settings: Settings) -> Iterator[Problem]:
    """https://docs.aws.amazon.com/fsx/latest/LustreGuide/encryption-at-rest.html"""
    lustre, where = settings.storage.lustre, f"{_WHERE}.kmsKeyArn"
    if lustre is None or lustre.kms_key_arn is None:
        return
    if not lustre.is_persistent:
        yield Problem(where, "applies to PERSISTENT_2; AWS owns the keys of SCRATCH_2. Remove it.")
    found = _KEY.fullmatch(lustre.kms_key_arn)
    if found is None:
        yield Problem(where, f"{shown(lustre.kms_key_arn)} is not the ARN of a KMS key. Use one such as {_EXAMPLE_KEY}.")
    elif found[1] != settings.region:
        yield Problem(where, f"the key is in {found[1]}, but the file system is in {settings.region}. Use a key in that Region.")


def data_repository(settings: Settings) -> Iterator[Problem]:
    lustre = settings.storage.lustre
    found = lustre.data_repository if lustre else None
    if found is None:
        return
    where = f"{_WHERE}.dataRepository"
    if not _PATH.fullmatch(found.path):
        yield Problem(f"{where}.path", f"{shown(found.path)} is not a bucket with an optional prefix. Use s3://bucket/prefix.")
    if not re.fullmatch(r"/|(/[A-Za-z0-9_.-]+)+", found.directory):
        yield Problem(f"{where}.directory", f"{shown(found.directory)} is not an absolute path. Use one such as /data.")
    yield from _events(where, found)


def _events(where: str, found: DataRepository) -> Iterator[Problem]:
    for name, events in (("autoImport", found.auto_import), ("autoExport", found.auto_export)):
        if twice := sorted({one for one in events if events.count(one) > 1}):
            yield Problem(f"{where}.{name}", f"lists {twice[0]} twice. Remove one.")


def kubernetes_version(settings: Settings) -> Iterator[Problem]:
    """Check that nodes can mount the file system. System nodes always have EKS's AMI, also if pools have another."""
    version = settings.eks.kubernetes_version
    if settings.storage.lustre is None or version not in WITHOUT_LUSTRE_CLIENT:
        return
    newest = max(set(KUBERNETES_VERSIONS) - set(WITHOUT_LUSTRE_CLIENT), key=KUBERNETES_VERSIONS.index)
    kernel = f"EKS's AMI for Kubernetes {version} has kernel {WITHOUT_LUSTRE_CLIENT[version]}, which has no Lustre client"
    yield Problem(_WHERE, f'{kernel}. Set target.kubernetesVersion: "{newest}", or use only storage.efs.')


# --- what AWS reports


def ami(settings: Settings, facts: Facts) -> Iterator[Problem]:
    """Check that the AMI of an EC2 cluster can mount the file system."""
    if settings.storage.lustre is None or facts.ami is None:
        return
    for system, kernel in _WITHOUT_CLIENT.items():
        if f"({system})" in facts.ami.source:
            base = f"the AMI {facts.ami.id} was built from AWS's AMI for {system}, whose kernel {kernel} has no Lustre client"
            fix = "Build one with `-var base=ubuntu-22.04` (docs/guides/amis.md), or use only storage.efs."
            yield Problem(_WHERE, f"{base}. {fix}")


def existing_file_system(settings: Settings, facts: Facts) -> Iterator[Problem]:
    wanted, found, where = settings.storage.existing_lustre_id, facts.lustre, f"{_WHERE}.fileSystemId"
    if wanted in facts.not_found:
        yield Problem(where, f"{shown(wanted)} is not an FSx for Lustre file system of {account(facts)}. Use an existing one.")
    if found is None:
        return
    if found.state not in ("AVAILABLE", "UPDATING"):
        yield Problem(where, f"{found.id} is {found.state}. Use one that is AVAILABLE.")
    if settings.network.is_existing and found.vpc_id != settings.network.vpc_id:
        yield Problem(where, f"{found.id} is in {found.vpc_id}, not in {settings.network.vpc_id}. Use the same VPC.")


def nodes_can_mount(settings: Settings, facts: Facts) -> Iterator[Problem]:
    """Check that the security groups of an existing file system allow Lustre traffic from the nodes' subnets."""
    lustre, found = settings.storage.lustre, facts.lustre
    if lustre is None or found is None or found.admitted is None or lustre.add_ingress_rule:
        return
    sources = frozenset[str]().union(*found.admitted.values())
    subnets = [facts.subnets[one] for one in settings.network.subnet_ids if one in facts.subnets]
    closed = [one for one in subnets if not admits(sources, one.cidr, found.nodes_groups)]
    if closed:
        yield Problem(
            f"{_WHERE}.fileSystemId",
            f"{found.id} does not admit nodes: no rule of {' or '.join(sorted(found.admitted))} allows TCP 988 from "
            f"{closed[0].id} ({closed[0].cidr}). Add rules for TCP 988 and 1018-1023, or set {_WHERE}.addIngressRule: true.",
        )


def own_file_system(settings: Settings, facts: Facts) -> Iterator[Problem]:
    """Reject changes to the stack's own file system that FSx does not support, or for which Pulumi would silently
    replace the file system."""
    lustre, found = settings.storage.lustre, facts.existing.lustre
    if lustre is None or lustre.is_existing:
        return
    zones = vpc_zones(settings, facts)
    if lustre.zone is not None and lustre.zone not in zones:
        others = ", ".join(zones)
        yield Problem(f"{_WHERE}.zone", f"{shown(lustre.zone)} is not a zone of the cluster's VPC. Choose from {others}.")
    if found is None:
        return
    if lustre.zone is not None and lustre.zone != found.zone:
        yield Problem(f"{_WHERE}.zone", f"{found.id} is in {found.zone} and cannot move. Set {found.zone}, or remove it.")
    size = lustre.size_gib or _SMALLEST
    if size < found.size_gib:
        now = found.size_gib
        yield Problem(f"{_WHERE}.sizeGib", f"{found.id} has {now} GiB and cannot shrink. Set {now} or more.")


def usable_key(settings: Settings, facts: Facts) -> Iterator[Problem]:
    lustre, state = settings.storage.lustre, facts.lustre_key_state
    if lustre is None or lustre.kms_key_arn is None or state in (None, "Enabled"):
        return
    what = "the key does not exist" if state == "NotFound" else f"the state of the key is {state}"
    yield Problem(f"{_WHERE}.kmsKeyArn", f"{what}. Use a key that is enabled.")


def bucket(settings: Settings, facts: Facts) -> Iterator[Problem]:
    lustre, where = settings.storage.lustre, f"{_WHERE}.dataRepository.path"
    repository = lustre.data_repository if lustre else None
    if repository is None or facts.bucket_region is None or facts.bucket_region == facts.region:
        return
    if not facts.bucket_region:
        yield Problem(where, f"bucket {repository.bucket} does not exist. Create it, or use an existing bucket.")
    else:
        there = f"bucket {repository.bucket} is in {facts.bucket_region}"
        yield Problem(
            where, f"{there}; automatic import and export need a bucket in {facts.region}. Use a bucket in that Region."
        )
