"""Effects of changing the file systems of a deployed cluster, and the subnets of an existing VPC.

The tests create one cluster in an existing VPC, with a new EFS and a new FSx for Lustre file system, and preview changes.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from localcloud.instance import LocalCloud
from localcloud.stack import LocalStack, Run
from testkit.projects import create_client
from tests.stacks import editing
from tests.stacks.changes import (
    NOTHING,
    Change,
    Refused,
    expect_all,
    expect_creations,
    expect_deletions,
    expect_recreation,
    expect_replacement,
    expect_updates,
    find_differences,
    list_cases,
    make_change,
)

pytestmark = pytest.mark.xdist_group("storage-changes")

VPC, IN_A, IN_B = "vpc-0123456789abcdef0", "subnet-0aaaaaaaaaaaaaaaa", "subnet-0bbbbbbbbbbbbbbbb"
EFS, LUSTRE = "fs-0123456789abcdef0", "fs-0123456789abcdef1"
ALSO_IN_A, IN_C = "another subnet in zone a", "a subnet in zone c"
"""Placeholders for the ids of subnets that a fixture creates."""
KEY = "arn:aws:kms:us-west-2:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
FSX = "storage.fsx"
FILE_SYSTEM, LINK = "lustre-file-system", "lustre-data"
NO_NEW_LUSTRE = expect_deletions(FILE_SYSTEM, LINK, "lustre-key*", "lustre-security-group", "lustre-*-ingress", "lustre-*-egress")

SHORT = (
    "subnets in another order",
    "a removed subnet",
    "a larger, faster Lustre file system",
)
"""Previews that `make test` runs; `make mission` runs all."""
PREVIEWS: dict[str, list[Change]] = {
    "subnets in another order": [make_change("network.subnetIds", [IN_B, IN_A], NOTHING)],
    "an additional subnet": [make_change("network.subnetIds", [ALSO_IN_A, IN_A, IN_B], expect_updates("cluster"))],
    "a subnet in an additional zone": [
        make_change("network.subnetIds", [IN_C, IN_A, IN_B], expect_creations("storage-us-west-2c-mount-target"))
    ],
    "a removed subnet": [
        make_change(
            "network.subnetIds",
            [ALSO_IN_A, IN_B],
            expect_all(
                expect_updates("cluster"),
                expect_replacement("system"),
                expect_replacement("train"),
                expect_recreation("storage-us-west-2a-mount-target"),
            ),
        )
    ],
    "a rule for an existing file system": [
        Change(
            "storage.efs.addIngressRule",
            {"storage.efs.fileSystemId": EFS, "storage.efs.addIngressRule": True},
            expect_all(
                expect_recreation("storage-access-point"),
                expect_creations("storage-sg-*-nodes-ingress"),
                expect_deletions("storage-file-system", "storage-policy", "storage-key*", "storage-*-mount-target"),
                expect_deletions("storage-security-group", "storage-nodes-ingress"),
            ),
        )
    ],
    "an existing file system": [
        make_change(
            "storage.efs.fileSystemId",
            EFS,
            expect_all(
                expect_recreation("storage-access-point"),
                expect_deletions("storage-file-system", "storage-policy", "storage-key*", "storage-*-mount-target"),
                expect_deletions("storage-security-group", "storage-nodes-ingress"),
            ),
        )
    ],
    "another mount path for Lustre, and deletion protection": [
        make_change(f"{FSX}.mountPath", "/lustre", NOTHING),
        make_change(f"{FSX}.protect", True, NOTHING),
    ],
    "a larger, faster Lustre file system": [
        make_change(f"{FSX}.sizeGib", 4800, expect_updates(FILE_SYSTEM)),
        make_change(f"{FSX}.throughputPerTib", 250, expect_updates(FILE_SYSTEM)),
        make_change(f"{FSX}.compression", False, expect_updates(FILE_SYSTEM)),
        make_change(f"{FSX}.dataRepository.autoImport", ["NEW"], expect_updates(LINK)),
        make_change(f"{FSX}.dataRepository.autoExport", [], expect_updates(LINK)),
    ],
    "Lustre without replicas": [
        make_change(
            f"{FSX}.deployment", "SCRATCH_2", expect_all(expect_recreation(FILE_SYSTEM, LINK), expect_deletions("lustre-key*"))
        )
    ],
    "the user's KMS key for Lustre": [
        make_change(f"{FSX}.kmsKeyArn", KEY, expect_all(expect_recreation(FILE_SYSTEM, LINK), expect_deletions("lustre-key*")))
    ],
    "another bucket": [make_change(f"{FSX}.dataRepository.path", "s3://gpumpi-inside-others", expect_recreation(LINK))],
    "another directory": [make_change(f"{FSX}.dataRepository.directory", "/sets", expect_recreation(LINK))],
    "an existing Lustre file system": [
        Change(f"{FSX}.fileSystemId", {FSX: {"fileSystemId": LUSTRE}}, NO_NEW_LUSTRE),
    ],
    "rules for an existing Lustre file system": [
        Change(
            f"{FSX}.addIngressRule",
            {FSX: {"fileSystemId": LUSTRE, "addIngressRule": True}},
            expect_all(NO_NEW_LUSTRE, expect_recreation("lustre-nodes-988-ingress", "lustre-nodes-1018-ingress")),
        ),
    ],
    "no Lustre file system": [
        make_change(FSX, "none", expect_all(NO_NEW_LUSTRE, expect_deletions("service-aws-fsx-csi-driver")))
    ],
}
REFUSED: dict[str, list[Refused]] = {
    "another zone of Lustre": [Refused(f"{FSX}.zone", {f"{FSX}.zone": "us-west-2a"}, "is in us-west-2b and cannot move")],
    "a smaller Lustre file system": [Refused(f"{FSX}.sizeGib", {f"{FSX}.sizeGib": 1200}, "has 2400 GiB and cannot shrink")],
}


class Inside(NamedTuple):
    stack: LocalStack
    values: editing.Values
    later: dict[str, str]
    """IDs of two additional subnets, keyed by placeholder."""


@pytest.fixture(scope="module")
def existing_vpc_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inside]:
    """Cluster in an existing VPC. The account has two more file systems and two more subnets."""
    cloud = LocalCloud(tmp_path_factory.mktemp("storage") / "cloud")
    cloud.start(print)
    yield _deploy_stack(cloud)
    cloud.stop()


def _deploy_stack(cloud: LocalCloud) -> Inside:
    stack = LocalStack(cloud, "inside", editing.DATA)
    stack.prepare()
    values = editing.read_settings(stack)
    cloud.control().create_prerequisites("us-west-2", editing.apply_changes(values, {"storage.efs.fileSystemId": EFS}))
    ec2 = create_client(cloud, "ec2")
    later = {
        name: ec2.create_subnet(VpcId=VPC, CidrBlock=cidr, AvailabilityZone=f"us-west-2{zone}")["Subnet"]["SubnetId"]
        for name, cidr, zone in ((ALSO_IN_A, "10.50.128.0/20", "a"), (IN_C, "10.50.144.0/20", "c"))
    }
    route_table = ec2.describe_route_tables(Filters=[{"Name": "association.subnet-id", "Values": [IN_A]}])["RouteTables"][0]
    for subnet_id in later.values():  # the program rejects subnets without a route to the internet
        ec2.associate_route_table(RouteTableId=route_table["RouteTableId"], SubnetId=subnet_id)
    up = stack.run("up")
    assert up.ok, up.output
    return Inside(stack, values, later)


def _preview_changes(inside: Inside, changes: dict[str, Any]) -> Run:
    """Preview the changes, after creating the existing resources to which they refer."""
    named = {
        path: [inside.later.get(key, key) for key in value] if isinstance(value, list) else value
        for path, value in changes.items()
    }
    changed = editing.apply_changes(inside.values, named)
    inside.stack.cloud.control().create_prerequisites("us-west-2", changed)
    editing.write_settings(inside.stack, changed)
    return inside.stack.run("preview")


@pytest.mark.parametrize("name", list_cases(PREVIEWS, *SHORT))
def test_a_change_affects_exactly_the_expected_resources(name: str, existing_vpc_cluster: Inside) -> None:
    changes = PREVIEWS[name]
    preview = _preview_changes(existing_vpc_cluster, {path: value for change in changes for path, value in change.values.items()})
    assert preview.ok, preview.output
    assert find_differences(editing.group_operations(preview), changes) == ([], [])


@pytest.mark.parametrize("name", REFUSED)
def test_a_change_not_supported_by_fsx_is_refused_before_anything_starts(name: str, existing_vpc_cluster: Inside) -> None:
    (change,) = REFUSED[name]
    preview = _preview_changes(existing_vpc_cluster, dict(change.values))
    assert not preview.ok and not editing.group_operations(preview)
    assert change.setting in preview.errors[0] and change.problem in preview.errors[0]
