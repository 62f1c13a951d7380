"""Rules for data that all job namespaces share."""

import re
from collections.abc import Iterator

from infra.config.messages import format_value, suggest_correction
from infra.config.problems import Problem
from infra.jobs.volumes import contains_path
from infra.naming import SHARED_DIRECTORY
from infra.plan.storage import plan_shared_data
from infra.settings.existing import ExistingSettings, Nfs
from infra.settings.stack import Settings
from infra.settings.storage import SharedData
from infra.validation.registry import EC2, EKS, EXISTING, register_rule
from infra.validation.storage import check_mount_path, check_overlaps

_DIRECTORY = re.compile(r"(/(?!\.{1,2}(/|$))[A-Za-z0-9_.-]+){1,4}")
"""Access points of EFS have paths with at most four levels and 100 characters:
https://docs.aws.amazon.com/efs/latest/ug/API_RootDirectory.html"""
_LONGEST = 100


@register_rule(target=EKS)
def check_eks_shared_data(settings: Settings) -> Iterator[Problem]:
    for each in settings.storage.file_systems:
        if each.shared_data is not None:
            where = f"storage.{each.kind.setting}.sharedData"
            yield from _check_shared_data(where, each.shared_data, settings.platform.namespace_names)


@register_rule(target=EKS)
def check_linked_directory_is_shared(settings: Settings) -> Iterator[Problem]:
    """Check that the directory that is linked to a bucket is outside of the directories of namespaces, and that jobs see it."""
    lustre = settings.storage.new_lustre
    if lustre is None or lustre.data_repository is None:
        return
    directory, where = lustre.data_repository.directory, "storage.fsx"
    if not _is_outside_namespaces(directory):
        fix = "Use another one, such as /data."
        yield Problem(f"{where}.dataRepository.directory", f"{format_value(directory)} contains directories of namespaces. {fix}")
    elif (data := plan_shared_data(lustre)) is not None and not contains_path(data.path, directory):
        fix = f"Set {directory}."
        yield Problem(
            f"{where}.sharedData.path", f"{format_value(data.path)} does not contain {where}.dataRepository.directory. {fix}"
        )


@register_rule(target=EC2)
def check_ec2_has_no_shared_data(settings: Settings) -> Iterator[Problem]:
    for each in settings.storage.file_systems:
        if each.shared_data is not None:
            where = f"storage.{each.kind.setting}.sharedData"
            yield Problem(where, "applies to job namespaces; all users of an EC2 cluster share its directory anyway. Remove it.")


@register_rule(target=EXISTING)
def check_existing_shared_data(settings: ExistingSettings) -> Iterator[Problem]:
    if isinstance(settings.storage, Nfs) and (data := settings.storage.shared_data) is not None:
        yield from _check_shared_data("storage.sharedData", data, settings.platform.namespace_names)
        paths = [("storage.mountPath", settings.storage.mount_path), ("storage.sharedData.mountPath", data.mount_path)]
        yield from check_overlaps(paths)


def _check_shared_data(where: str, data: SharedData, namespaces: tuple[str, ...]) -> Iterator[Problem]:
    if not _DIRECTORY.fullmatch(data.path) or len(data.path) > _LONGEST:
        levels = f"is not an absolute path with one to four directories and at most {_LONGEST} characters"
        yield Problem(f"{where}.path", f"{format_value(data.path)} {levels}. Use one such as /data-sets.")
    elif not _is_outside_namespaces(data.path):
        yield Problem(f"{where}.path", f"{format_value(data.path)} is reserved for job namespaces. Use one such as /data-sets.")
    yield from check_mount_path(f"{where}.mountPath", data.mount_path)
    for index, namespace in enumerate(data.writable_by):
        if namespace not in namespaces:
            fix = suggest_correction(namespace, namespaces) or f". Use {', '.join(namespaces)}."
            yield Problem(f"{where}.writableBy[{index}]", f"{format_value(namespace)} is not in platform.namespaces{fix}")


def _is_outside_namespaces(directory: str) -> bool:
    """Return whether a directory neither contains nor is in a directory of the program, such as those of namespaces."""
    return directory != "/" and not directory.startswith(SHARED_DIRECTORY)
