"""Rules for the FSx for Lustre file system."""

import re
from collections.abc import Iterator

from infra.config.messages import format_value
from infra.config.problems import Problem
from infra.facts.model import Facts
from infra.facts.queries import Query
from infra.plan.placement import list_vpc_zones
from infra.settings.stack import Settings
from infra.settings.storage import SMALLEST_GIB, STEP_GIB, ExistingLustre
from infra.validation.registry import EC2, EKS, Topic, register_rule
from infra.validation.storage import check_file_system, check_nodes_are_admitted
from infra.versions import KUBERNETES_VERSIONS, WITHOUT_LUSTRE_CLIENT

_WHERE = "storage.fsx"
_KEY = re.compile(r"arn:aws[a-z-]*:kms:([a-z0-9-]+):[0-9]{12}:key/[A-Za-z0-9-]+")
_EXAMPLE_KEY = "arn:aws:kms:us-west-2:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
_WITHOUT_CLIENT = {"Ubuntu 24.04": "7.0"}
"""Systems of the Deep Learning AMIs with a kernel for which no Lustre client is known:
https://docs.aws.amazon.com/dlami/latest/devguide/appendix-ami-release-notes.html, read 2026-11-22. The AMI for Ubuntu
22.04 has kernel 6.8."""
_PATH = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[^/]+)*/?")


@register_rule()
def check_lustre_capacity(settings: Settings) -> Iterator[Problem]:
    """Check size and throughput against the deployment type."""
    lustre = settings.storage.new_lustre
    if lustre is None:
        return
    size = lustre.size_gib
    if size != SMALLEST_GIB and (size < STEP_GIB or size % STEP_GIB):
        nearest = max(STEP_GIB, -(-size // STEP_GIB) * STEP_GIB) if size > SMALLEST_GIB else SMALLEST_GIB
        allowed = f"must be {SMALLEST_GIB} or a multiple of {STEP_GIB}"
        yield Problem(f"{_WHERE}.sizeGib", f"{allowed} (got {size}). Set {nearest}.")
    if not lustre.is_persistent and "throughput_per_tib" in lustre.model_fields_set:
        yield Problem(f"{_WHERE}.throughputPerTib", "applies to PERSISTENT_2; SCRATCH_2 always has 200 MB/s per TiB. Remove it.")


@register_rule()
def check_lustre_key_arn(settings: Settings) -> Iterator[Problem]:
    """https://docs.aws.amazon.com/fsx/latest/LustreGuide/encryption-at-rest.html"""
    lustre, where = settings.storage.new_lustre, f"{_WHERE}.kmsKeyArn"
    if lustre is None or lustre.kms_key_arn is None:
        return
    if not lustre.is_persistent:
        yield Problem(where, "applies to PERSISTENT_2; AWS owns the keys of SCRATCH_2. Remove it.")
    match = _KEY.fullmatch(lustre.kms_key_arn)
    if match is None:
        yield Problem(where, f"{format_value(lustre.kms_key_arn)} is not the ARN of a KMS key. Use one such as {_EXAMPLE_KEY}.")
    elif match[1] != settings.region:
        yield Problem(where, f"the key is in {match[1]}, but the file system is in {settings.region}. Use a key in that Region.")


@register_rule()
def check_data_repository(settings: Settings) -> Iterator[Problem]:
    lustre = settings.storage.new_lustre
    repository = lustre.data_repository if lustre else None
    if repository is None:
        return
    where = f"{_WHERE}.dataRepository"
    if not _PATH.fullmatch(repository.path):
        yield Problem(
            f"{where}.path", f"{format_value(repository.path)} is not a bucket with an optional prefix. Use s3://bucket/prefix."
        )
    if not re.fullmatch(r"/|(/[A-Za-z0-9_.-]+)+", repository.directory):
        yield Problem(
            f"{where}.directory", f"{format_value(repository.directory)} is not an absolute path. Use one such as /data."
        )
    for name, events in (("autoImport", repository.auto_import), ("autoExport", repository.auto_export)):
        if repeated := sorted({event for event in events if events.count(event) > 1}):
            yield Problem(f"{where}.{name}", f"lists {repeated[0]} twice. Remove one.")


@register_rule(target=EKS)
def check_eks_nodes_support_lustre(settings: Settings) -> Iterator[Problem]:
    """Check that nodes can mount the file system. System nodes always have EKS's AMI, even if pools have another AMI."""
    version = settings.eks.kubernetes_version
    if not _uses_lustre(settings) or version not in WITHOUT_LUSTRE_CLIENT:
        return
    newest = max(set(KUBERNETES_VERSIONS) - set(WITHOUT_LUSTRE_CLIENT), key=KUBERNETES_VERSIONS.index)
    kernel = f"EKS's AMI for Kubernetes {version} has kernel {WITHOUT_LUSTRE_CLIENT[version]}, which has no Lustre client"
    yield Problem(_WHERE, f'{kernel}. Set target.kubernetesVersion: "{newest}", or use only storage.efs.')


# --- what AWS reports


def _uses_lustre(settings: Settings) -> bool:
    return settings.storage.fsx != "none"


@register_rule(Topic.AMIS, target=EC2, reads=(Query.AMI,))
def check_ami_supports_lustre(settings: Settings, facts: Facts) -> Iterator[Problem]:
    """Check that the AMI of an EC2 cluster can mount the file system."""
    if not _uses_lustre(settings) or facts.ami is None:
        return
    for system, kernel in _WITHOUT_CLIENT.items():
        if f"({system})" in facts.ami.source:
            base = f"the AMI {facts.ami.id} was built from AWS's AMI for {system}, whose kernel {kernel} has no Lustre client"
            fix = "Build one with `-var base=ubuntu-22.04` (docs/guides/amis.md), or use only storage.efs."
            yield Problem(_WHERE, f"{base}. {fix}")


@register_rule(Topic.LUSTRE, reads=(Query.LUSTRE,), applies=_uses_lustre)
def check_existing_lustre(settings: Settings, facts: Facts) -> Iterator[Problem]:
    if isinstance(settings.storage.fsx, ExistingLustre):
        yield from check_file_system(settings, facts, settings.storage.fsx, facts.lustre, ("AVAILABLE", "UPDATING"))


@register_rule(Topic.LUSTRE, reads=(Query.LUSTRE, Query.SUBNETS), applies=_uses_lustre)
def check_nodes_can_mount_lustre(settings: Settings, facts: Facts) -> Iterator[Problem]:
    if isinstance(settings.storage.fsx, ExistingLustre):
        ports = ("988", "1018-1023")
        yield from check_nodes_are_admitted(settings, facts, settings.storage.fsx, facts.lustre, ports, within_zone=False)


@register_rule(Topic.LUSTRE, reads=(Query.LUSTRE,), applies=_uses_lustre)
def check_own_lustre_changes(settings: Settings, facts: Facts) -> Iterator[Problem]:
    """Reject changes to the stack's own file system that FSx does not support, or for which Pulumi would silently
    replace the file system."""
    lustre, existing = settings.storage.new_lustre, facts.existing.lustre
    if lustre is None:
        return
    zones = list_vpc_zones(settings, facts)
    if lustre.zone is not None and lustre.zone not in zones:
        fix = f"Choose from {', '.join(zones)}."
        yield Problem(f"{_WHERE}.zone", f"{format_value(lustre.zone)} is not a zone of the cluster's VPC. {fix}")
    if existing is None:
        return
    if lustre.zone is not None and lustre.zone != existing.zone:
        there = f"{existing.id} is in {existing.zone} and cannot move"
        yield Problem(f"{_WHERE}.zone", f"{there}. Set {existing.zone}, or remove it.")
    if lustre.size_gib < existing.size_gib:
        now = existing.size_gib
        yield Problem(f"{_WHERE}.sizeGib", f"{existing.id} has {now} GiB and cannot shrink. Set {now} or more.")


@register_rule(
    Topic.LUSTRE_KEY,
    reads=(Query.LUSTRE_KEY,),
    applies=lambda settings: settings.storage.new_lustre is not None and settings.storage.new_lustre.kms_key_arn is not None,
)
def check_lustre_key(settings: Settings, facts: Facts) -> Iterator[Problem]:
    state = facts.lustre_key_state
    if state in (None, "Enabled"):
        return
    reason = "the key does not exist" if state == "NotFound" else f"the state of the key is {state}"
    yield Problem(f"{_WHERE}.kmsKeyArn", f"{reason}. Use a key that is enabled.")


@register_rule(
    Topic.BUCKET,
    reads=(Query.BUCKET,),
    applies=lambda settings: settings.storage.new_lustre is not None and settings.storage.new_lustre.data_repository is not None,
)
def check_bucket(settings: Settings, facts: Facts) -> Iterator[Problem]:
    lustre, where = settings.storage.new_lustre, f"{_WHERE}.dataRepository.path"
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
