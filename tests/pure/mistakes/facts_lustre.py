"""FSx for Lustre mistakes that are found with facts from AWS."""

from dataclasses import replace
from typing import Any

from infra.facts.model import Existing, LustreFileSystem
from tests.pure.mistakes.case import WHERE, A, B, C, FactsCase
from tests.pure.world import FILE_SYSTEM, REGION, VPC, existing_network, subnet_id

LUSTRE = LustreFileSystem(
    id=FILE_SYSTEM,
    state="AVAILABLE",
    mount_targets={A: VPC},
    subnet_id=subnet_id("a"),
    size_gib=2400,
    dns_name=f"{FILE_SYSTEM}.fsx.{REGION}.amazonaws.com",
    mount_name="abcdefgh",
    admitted={A: {"sg-lustre": frozenset({"0.0.0.0/0"})}},
)
NAMED: dict[str, Any] = {"network": existing_network(), "storage": {"fsx": {"fileSystemId": FILE_SYSTEM}}}
OWN = {"existing": Existing(lustre=LUSTRE)}
LINKED: dict[str, Any] = {"storage": {"fsx": {"dataRepository": {"path": "s3://sets/imagenet"}}}}
KEY = f"arn:aws:kms:{REGION}:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
ENCRYPTED: dict[str, Any] = {"storage": {"fsx": {"kmsKeyArn": KEY}}}


def make_changed_lustre_facts(**values: Any) -> dict[str, Any]:
    """Return facts with the existing file system, with some values changed."""
    return {"lustre": {FILE_SYSTEM: replace(LUSTRE, **values)}}


CASES: dict[str, FactsCase] = {
    "Lustre file system that does not exist": (
        NAMED,
        [],
        {"not_found": frozenset({FILE_SYSTEM})},
        [
            f'storage.fsx.fileSystemId: "{FILE_SYSTEM}" is not an FSx for Lustre file system of {WHERE}. Use an existing one.',
        ],
    ),
    "Lustre file system that failed": (
        NAMED,
        [],
        make_changed_lustre_facts(state="FAILED"),
        [f"storage.fsx.fileSystemId: {FILE_SYSTEM} is FAILED. Use one that is AVAILABLE."],
    ),
    "Lustre file system in another VPC": (
        NAMED,
        [],
        make_changed_lustre_facts(mount_targets={A: "vpc-99999999"}),
        [f"storage.fsx.fileSystemId: {FILE_SYSTEM} is in vpc-99999999, not in {VPC}. Use the same VPC."],
    ),
    "Lustre file system that does not admit nodes": (
        NAMED,
        [],
        make_changed_lustre_facts(admitted={A: {"sg-lustre": frozenset({"192.168.0.0/16"})}}),
        [
            f"storage.fsx.fileSystemId: {FILE_SYSTEM} does not admit nodes in {A}: no rule of sg-lustre allows TCP 988 from "
            f"{subnet_id('a')} (10.0.0.0/20). Add rules for TCP 988 and 1018-1023, or set storage.fsx.addIngressRule: true.",
        ],
    ),
    "Lustre file system that is changing": (NAMED, [], make_changed_lustre_facts(state="UPDATING"), []),
    "Lustre in a zone without subnets": (
        {"storage": {"fsx": {"zone": "us-west-2f"}}},
        [],
        {},
        [f'storage.fsx.zone: "us-west-2f" is not a zone of the cluster\'s VPC. Choose from {A}, {B}, {C}.'],
    ),
    "Lustre moved to another zone": (
        {"storage": {"fsx": {"zone": B, "sizeGib": 2400}}},
        [],
        OWN,
        [f"storage.fsx.zone: {FILE_SYSTEM} is in {A} and cannot move. Set {A}, or remove it."],
    ),
    "smaller Lustre file system": (
        {"storage": {"fsx": {}}},
        [],
        OWN,
        [f"storage.fsx.sizeGib: {FILE_SYSTEM} has 2400 GiB and cannot shrink. Set 2400 or more."],
    ),
    "linked bucket that does not exist": (
        LINKED,
        [],
        {"bucket_region": ""},
        ["storage.fsx.dataRepository.path: bucket sets does not exist. Create it, or use an existing bucket."],
    ),
    "linked bucket in another Region": (
        LINKED,
        [],
        {"bucket_region": "eu-west-1"},
        [
            "storage.fsx.dataRepository.path: bucket sets is in eu-west-1; automatic import and export need a bucket in "
            f"{REGION}. Use a bucket in that Region."
        ],
    ),
    "Lustre key that does not exist": (
        ENCRYPTED,
        [],
        {"lustre_key_state": "NotFound"},
        ["storage.fsx.kmsKeyArn: the key does not exist. Use a key that is enabled."],
    ),
    "Lustre key that is scheduled for deletion": (
        ENCRYPTED,
        [],
        {"lustre_key_state": "PendingDeletion"},
        ["storage.fsx.kmsKeyArn: the state of the key is PendingDeletion. Use a key that is enabled."],
    ),
    "Lustre key that could not be read": (ENCRYPTED, [], {"lustre_key_state": None}, []),
}
