"""Each claim gets its own access point and volume; an invalid claim or storage class is rejected with the reason."""

from typing import Any

import pytest

from localcloud.kubernetes.efs_csi import provisioning
from localcloud.kubernetes.efs_csi.provisioning import Unprovisionable

UID = "0f2c4a86-1111-4222-8333-444455556666"


def make_storage_class(**parameters: str) -> dict[str, Any]:
    merged = {"provisioningMode": "efs-ap", "fileSystemId": "fs-1", "directoryPerms": "700"} | parameters
    return {
        "metadata": {"name": "efs"},
        "parameters": {name: value for name, value in merged.items() if value},
        "reclaimPolicy": "Delete",
        "mountOptions": ["tls"],
    }


def make_claim(**metadata: Any) -> dict[str, Any]:
    annotations = {provisioning.STORAGE_PROVISIONER: "efs.csi.aws.com"}
    return {
        "metadata": {"name": "data", "namespace": "jobs", "uid": UID, "annotations": annotations} | metadata,
        "spec": {"storageClassName": "efs", "accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "5Gi"}}},
    }


def test_claim_gets_an_access_point_with_its_own_directory_and_group() -> None:
    assert provisioning.plan_access_point(make_storage_class(), make_claim(), {50000, 50001}).request() == {
        "ClientToken": f"pvc-{UID}",
        "FileSystemId": "fs-1",
        "PosixUser": {"Uid": 50002, "Gid": 50002},
        "RootDirectory": {
            "Path": f"/pvc-{UID}",
            "CreationInfo": {"OwnerUid": 50002, "OwnerGid": 50002, "Permissions": "700"},
        },
        "Tags": [{"Key": "efs.csi.aws.com/cluster", "Value": "true"}],
    }


@pytest.mark.parametrize(
    ("parameters", "path"),
    [
        ({"basePath": "/dynamic"}, f"/dynamic/pvc-{UID}"),
        (
            {"subPathPattern": "${.PVC.namespace}/${.PVC.name}", "ensureUniqueDirectory": "false"},
            "/jobs/data",
        ),
        ({"subPathPattern": "${.PVC.name}"}, f"/data-{UID}"),
        ({"subPathPattern": "${.PV.name}", "ensureUniqueDirectory": "false", "basePath": "a/b"}, f"/a/b/pvc-{UID}"),
    ],
)
def test_the_directory_follows_base_path_and_pattern(parameters: dict[str, str], path: str) -> None:
    assert provisioning.plan_access_point(make_storage_class(**parameters), make_claim(), ()).path == path


@pytest.mark.parametrize(
    ("parameters", "uid", "gid"),
    [
        ({"uid": "1000", "gid": "1001"}, 1000, 1001),
        ({"gid": "1001"}, 1001, 1001),
        ({"gidRangeStart": "7", "gidRangeEnd": "9"}, 8, 8),
        ({"uid": "0", "gid": "0"}, 0, 0),
    ],
)
def test_user_and_group_come_from_storage_class_or_next_free_id(parameters: dict[str, str], uid: int, gid: int) -> None:
    volume = provisioning.plan_access_point(make_storage_class(**parameters), make_claim(), {7})
    assert (volume.uid, volume.gid) == (uid, gid)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"provisioningMode": "efs-dir"}, "Provisioning mode efs-dir is not supported. Use efs-ap"),
        ({"fileSystemId": ""}, "Missing fileSystemId parameter"),
        ({"directoryPerms": ""}, "directoryPerms must be an octal number such as \"700\" (got '')"),
        ({"directoryPerms": "rwx"}, "directoryPerms must be an octal number such as \"700\" (got 'rwx')"),
        ({"fileSystem": "fs-1"}, "Unknown parameter fileSystem"),
        ({"reuseAccessPoint": "true"}, "the local EFS CSI driver does not emulate the parameter reuseAccessPoint"),
        ({"uid": "mpi"}, "uid must be a number (got 'mpi')"),
        ({"gidRangeStart": "1"}, "gidRangeStart and gidRangeEnd must be set together"),
        ({"gidRangeStart": "1", "gidRangeEnd": "2"}, "no group ID from 1 to 2 is free"),
        (
            {"subPathPattern": "${.Pod.name}"},
            "subPathPattern contains the unknown variable ${.Pod.name}. Use ${.PVC.name}, ${.PVC.namespace}, ${.PV.name}",
        ),
        ({"basePath": "/a/b/c/d"}, f"Proposed path '/a/b/c/d/pvc-{UID}' exceeds EFS limits: 100 characters and 4 directories"),
    ],
)
def test_unprovisionable_claim_is_refused_with_the_reason(parameters: dict[str, str], message: str) -> None:
    with pytest.raises(Unprovisionable) as caught:
        provisioning.plan_access_point(make_storage_class(**parameters), make_claim(), {1, 2})
    assert str(caught.value) == message


def test_provisioned_volume_is_bound_to_its_claim() -> None:
    volume = provisioning.build_volume(make_storage_class(), make_claim(), "fs-1::fsap-2")
    assert volume["metadata"] == {
        "name": f"pvc-{UID}",
        "annotations": {"pv.kubernetes.io/provisioned-by": "efs.csi.aws.com"},
    }
    spec = volume["spec"]
    assert spec["csi"] == {"driver": "efs.csi.aws.com", "volumeHandle": "fs-1::fsap-2"}
    assert spec["claimRef"]["uid"] == UID and spec["claimRef"]["namespace"] == "jobs"
    assert (spec["capacity"], spec["accessModes"], spec["storageClassName"]) == ({"storage": "5Gi"}, ["ReadWriteMany"], "efs")
    assert (spec["persistentVolumeReclaimPolicy"], spec["mountOptions"]) == ("Delete", ["tls"])


def test_driver_serves_only_claims_assigned_to_the_driver() -> None:
    assert provisioning.must_provision(make_claim())
    assert not provisioning.must_provision(make_claim(annotations={}))
    assert not provisioning.must_provision(make_claim(annotations={provisioning.STORAGE_PROVISIONER: "ebs.csi.aws.com"}))
    assert not provisioning.must_provision(make_claim(deletionTimestamp="2026-01-01T00:00:00Z"))
    bound = make_claim()
    bound["spec"]["volumeName"] = "pvc-x"
    assert not provisioning.must_provision(bound)


@pytest.mark.parametrize(
    ("change", "goes"),
    [
        ({}, True),
        ({"phase": "Bound"}, False),
        ({"policy": "Retain"}, False),
        ({"by": "another"}, False),
    ],
)
def test_only_released_volumes_of_the_driver_are_deleted(change: dict[str, str], goes: bool) -> None:
    volume = provisioning.build_volume(make_storage_class(), make_claim(), "fs-1::fsap-2")
    volume["status"] = {"phase": change.get("phase", "Released")}
    volume["spec"]["persistentVolumeReclaimPolicy"] = change.get("policy", "Delete")
    volume["metadata"]["annotations"][provisioning.PROVISIONED_BY] = change.get("by", "efs.csi.aws.com")
    assert provisioning.must_delete(volume) == goes
