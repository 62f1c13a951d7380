"""Effects of changing the file systems of a deployed cluster, and the subnets of an existing VPC.

The tests create one cluster in an existing VPC, with a new EFS and a new FSx for Lustre file system, and preview changes.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from localcloud.instance import LocalCloud
from localcloud.stack import LocalStack, Run
from testkit.projects import client
from tests.stacks import editing
from tests.stacks.changes import (
    NOTHING,
    Change,
    Refused,
    both,
    cases,
    change,
    creates,
    deletes,
    differences,
    recreates,
    replaces,
    updates,
)

pytestmark = pytest.mark.xdist_group("storage-changes")

VPC, IN_A, IN_B = "vpc-0123456789abcdef0", "subnet-0aaaaaaaaaaaaaaaa", "subnet-0bbbbbbbbbbbbbbbb"
EFS, LUSTRE = "fs-0123456789abcdef0", "fs-0123456789abcdef1"
ALSO_IN_A, IN_C = "another subnet in zone a", "a subnet in zone c"
"""Placeholders for the ids of subnets that a fixture creates."""
KEY = "arn:aws:kms:us-west-2:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
FSX = "storage.fsx"
FILE_SYSTEM, LINK = "lustre-file-system", "lustre-data"
NO_NEW_LUSTRE = deletes(FILE_SYSTEM, LINK, "lustre-key*", "lustre-security-group", "lustre-*-ingress", "lustre-*-egress")

SHORT = (
    "subnets in another order",
    "a removed subnet",
    "a larger, faster Lustre file system",
)
"""Previews that `make test` runs; `make mission` runs all."""
PREVIEWS: dict[str, list[Change]] = {
    "subnets in another order": [change("network.subnetIds", [IN_B, IN_A], NOTHING)],
    "an additional subnet": [change("network.subnetIds", [ALSO_IN_A, IN_A, IN_B], updates("cluster"))],
    "a subnet in an additional zone": [
        change("network.subnetIds", [IN_C, IN_A, IN_B], creates("storage-us-west-2c-mount-target"))
    ],
    "a removed subnet": [
        change(
            "network.subnetIds",
            [ALSO_IN_A, IN_B],
            both(updates("cluster"), replaces("system"), replaces("train"), recreates("storage-us-west-2a-mount-target")),
        )
    ],
    "a rule for an existing file system": [
        Change(
            "storage.efs.addIngressRule",
            {"storage.efs.fileSystemId": EFS, "storage.efs.addIngressRule": True},
            both(
                recreates("storage-access-point"),
                creates("storage-sg-*-nodes-ingress"),
                deletes("storage-file-system", "storage-policy", "storage-key*", "storage-*-mount-target"),
                deletes("storage-security-group", "storage-nodes-ingress"),
            ),
        )
    ],
    "an existing file system": [
        change(
            "storage.efs.fileSystemId",
            EFS,
            both(
                recreates("storage-access-point"),
                deletes("storage-file-system", "storage-policy", "storage-key*", "storage-*-mount-target"),
                deletes("storage-security-group", "storage-nodes-ingress"),
            ),
        )
    ],
    "another mount path for Lustre, and deletion protection": [
        change(f"{FSX}.mountPath", "/lustre", NOTHING),
        change(f"{FSX}.protect", True, NOTHING),
    ],
    "a larger, faster Lustre file system": [
        change(f"{FSX}.sizeGib", 4800, updates(FILE_SYSTEM)),
        change(f"{FSX}.throughputPerTib", 250, updates(FILE_SYSTEM)),
        change(f"{FSX}.compression", False, updates(FILE_SYSTEM)),
        change(f"{FSX}.dataRepository.autoImport", ["NEW"], updates(LINK)),
        change(f"{FSX}.dataRepository.autoExport", [], updates(LINK)),
    ],
    "Lustre without replicas": [
        change(f"{FSX}.deployment", "SCRATCH_2", both(recreates(FILE_SYSTEM, LINK), deletes("lustre-key*")))
    ],
    "the user's KMS key for Lustre": [
        change(f"{FSX}.kmsKeyArn", KEY, both(recreates(FILE_SYSTEM, LINK), deletes("lustre-key*")))
    ],
    "another bucket": [change(f"{FSX}.dataRepository.path", "s3://gpumpi-inside-others", recreates(LINK))],
    "another directory": [change(f"{FSX}.dataRepository.directory", "/sets", recreates(LINK))],
    "an existing Lustre file system": [
        Change(f"{FSX}.fileSystemId", {FSX: {"fileSystemId": LUSTRE}}, NO_NEW_LUSTRE),
    ],
    "rules for an existing Lustre file system": [
        Change(
            f"{FSX}.addIngressRule",
            {FSX: {"fileSystemId": LUSTRE, "addIngressRule": True}},
            both(NO_NEW_LUSTRE, recreates("lustre-nodes-988-ingress", "lustre-nodes-1018-ingress")),
        ),
    ],
    "no Lustre file system": [change(FSX, "none", both(NO_NEW_LUSTRE, deletes("service-aws-fsx-csi-driver")))],
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
def inside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inside]:
    """Cluster in an existing VPC. Its account has two more file systems and two more subnets."""
    cloud = LocalCloud(tmp_path_factory.mktemp("storage") / "cloud")
    cloud.start(print)
    yield _brought_up(cloud)
    cloud.stop()


def _brought_up(cloud: LocalCloud) -> Inside:
    stack = LocalStack(cloud, "inside", editing.DATA)
    stack.prepare()
    values = editing.read(stack)
    cloud.control().grant("us-west-2", editing.with_changes(values, {"storage.efs.fileSystemId": EFS}))
    ec2 = client(cloud, "ec2")
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


def _previewed(inside: Inside, changes: dict[str, Any]) -> Run:
    """Preview the changes, after creating the existing resources to which they refer."""
    named = {
        path: [inside.later.get(key, key) for key in value] if isinstance(value, list) else value
        for path, value in changes.items()
    }
    changed = editing.with_changes(inside.values, named)
    inside.stack.cloud.control().grant("us-west-2", changed)
    editing.write(inside.stack, changed)
    return inside.stack.run("preview")


@pytest.mark.parametrize("name", cases(PREVIEWS, *SHORT))
def test_a_change_affects_exactly_the_expected_resources(name: str, inside: Inside) -> None:
    changes = PREVIEWS[name]
    preview = _previewed(inside, {path: value for change in changes for path, value in change.values.items()})
    assert preview.ok, preview.output
    assert differences(editing.operations(preview), changes) == ([], [])


@pytest.mark.parametrize("name", REFUSED)
def test_a_change_that_fsx_cannot_make_is_refused_before_anything_starts(name: str, inside: Inside) -> None:
    (change,) = REFUSED[name]
    preview = _previewed(inside, dict(change.values))
    assert not preview.ok and not editing.operations(preview)
    assert change.setting in preview.errors[0] and change.problem in preview.errors[0]
