"""Data that all namespaces share: jobs mount it, but never store keys, folders or logs there."""

from typing import Any

import pytest

from infra.jobs.cluster import NamespaceDescription, VolumeDescription
from infra.jobs.model import Job, Mount
from infra.jobs.volumes import build_container_mounts, find_writable_path, list_writable_shared_mounts
from infra.naming import derive_owner_id
from tests.pure.job_world import SHARED

NAMESPACE = "research"


def make_namespace(*, read_only: bool, own: bool = True) -> NamespaceDescription:
    """Return a namespace with the shared data, listed first, and by default with a volume of its own."""
    data = VolumeDescription(
        name="shared-data", claim="shared-data", mount_path="/data", read_only=read_only, across_namespaces=True
    )
    return NamespaceDescription(name=NAMESPACE, volumes=(data, *([SHARED] if own else [])))


def make_job(**fields: Any) -> Job:
    return Job(name="train", pool="gpu", workers=1, image="example.com/image:1", command=("true",), **fields)


@pytest.mark.parametrize("read_only", [True, False])
def test_jobs_mount_shared_data_read_only_unless_their_namespace_may_write(read_only: bool) -> None:
    data, _ = build_container_mounts(make_job(), make_namespace(read_only=read_only))
    assert data["mountPath"] == "/data" and data.get("readOnly", False) is read_only


def test_a_job_cannot_ask_for_write_access_to_read_only_data() -> None:
    (data,) = build_container_mounts(make_job(volumes=(Mount(name="shared-data"),)), make_namespace(read_only=True))
    assert data["readOnly"] is True


@pytest.mark.parametrize("read_only", [True, False])
def test_keys_and_folders_of_jobs_are_stored_only_where_no_other_namespace_reads(read_only: bool) -> None:
    namespace = make_namespace(read_only=read_only)
    assert find_writable_path(make_job(), namespace) == "/shared"
    assert [mount.name for mount in list_writable_shared_mounts(make_job(), namespace)] == ["shared"]


def test_shared_data_alone_is_no_place_for_keys_and_folders() -> None:
    namespace = make_namespace(read_only=False, own=False)
    assert find_writable_path(make_job(), namespace) is None
    assert list_writable_shared_mounts(make_job(), namespace) == ()


def test_directories_have_different_owners() -> None:
    directories = [f"/gpumpi-jobs-team-{number}" for number in range(1000)]
    assert len({derive_owner_id(directory) for directory in directories}) == len(directories)
