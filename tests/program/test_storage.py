"""Shared storage and the key bucket."""

import json
from typing import Any

import pytest

from infra.facts import FileSystem
from localcloud.aws.policy_evaluation import Request, decide
from tests.program import engine
from tests.program.engine import Deployment, deploy
from tests.pure import world


def storage(**efs: Any) -> Deployment:
    settings = world.settings(world.pool(), storage={"efs": efs})
    return deploy(settings, world.facts(settings))


@pytest.fixture(scope="module")
def usual() -> Deployment:
    return storage()


# --- file system


def test_the_file_system_is_encrypted_with_its_own_key_and_has_elastic_throughput(usual: Deployment) -> None:
    inputs = usual.only(engine.FILE_SYSTEM).inputs
    assert inputs["encrypted"] is True and inputs["kmsKeyId"] == usual.only(engine.KEY, "storage").state["arn"]
    assert inputs["throughputMode"] == "elastic" and inputs["performanceMode"] == "generalPurpose"


def test_every_zone_has_a_mount_target_that_admits_nodes_only(usual: Deployment) -> None:
    targets = usual.created(engine.MOUNT_TARGET)
    assert sorted(target.name for target in targets) == [f"gpumpi-test-storage-us-west-2{zone}-mount-target" for zone in "abc"]
    (group,) = {target.inputs["securityGroups"][0] for target in targets}
    rule = usual.only(engine.INGRESS_RULE, "storage").inputs
    assert rule["securityGroupId"] == group
    assert (rule["ipProtocol"], rule["fromPort"], rule["toPort"]) == ("tcp", 2049, 2049)
    assert rule["referencedSecurityGroupId"] == "gpumpi-test-nodes-id"


def test_jobs_see_one_directory_as_the_images_user(usual: Deployment) -> None:
    point = usual.only(engine.ACCESS_POINT).inputs
    assert point["posixUser"] == {"uid": 1000, "gid": 1000}
    assert point["rootDirectory"] == {
        "path": "/gpumpi",
        "creationInfo": {"ownerUid": 1000, "ownerGid": 1000, "permissions": "0775"},
    }


@pytest.mark.parametrize(("tls", "decision"), [(True, "allow"), (False, "explicit deny")])
def test_the_file_system_rejects_unencrypted_transport(usual: Deployment, tls: bool, decision: str) -> None:
    policy = json.loads(usual.only(engine.FILE_SYSTEM_POLICY).inputs["policy"])
    context = {"aws:SecureTransport": tls, "elasticfilesystem:AccessedViaMountTarget": True}
    request = Request("elasticfilesystem:ClientMount", usual.only(engine.FILE_SYSTEM).state["arn"], context)
    assert decide(request, policy) == decision


@pytest.mark.parametrize(("backup", "policies"), [(True, 1), (False, 0)])
def test_backups_are_made_on_request(backup: bool, policies: int) -> None:
    assert len(storage(backup=backup).created(engine.BACKUP_POLICY)) == policies


@pytest.mark.parametrize(("days", "after"), [(1, "AFTER_1_DAY"), (30, "AFTER_30_DAYS"), (365, "AFTER_365_DAYS")])
def test_unread_files_move_to_infrequent_access_on_request(days: int, after: str) -> None:
    assert storage(infrequentAccessAfterDays=days).only(engine.FILE_SYSTEM).inputs["lifecyclePolicies"] == [
        {"transitionToIa": after},
        {"transitionToPrimaryStorageClass": "AFTER_1_ACCESS"},
    ]


def test_files_stay_in_standard_storage_by_default(usual: Deployment) -> None:
    assert not usual.only(engine.FILE_SYSTEM).inputs.get("lifecyclePolicies")


@pytest.mark.parametrize("protect", [True, False])
def test_protect_applies_only_to_the_file_system(protect: bool) -> None:
    stack = storage(protect=protect)
    assert {resource.type for resource in stack.resources if resource.protected} == ({engine.FILE_SYSTEM} if protect else set())


@pytest.mark.mission("C", "EFS")
def test_an_existing_file_system_gets_only_an_access_point() -> None:
    deployment = storage(fileSystemId=world.FILE_SYSTEM)
    assert {resource.type for resource in deployment.resources if resource.type.startswith("aws:efs/")} == {engine.ACCESS_POINT}
    assert deployment.only(engine.ACCESS_POINT).inputs["fileSystemId"] == world.FILE_SYSTEM
    assert deployment.outputs["fileSystemId"] == world.FILE_SYSTEM
    assert not deployment.created(engine.KEY, "storage")


# --- key bucket


def test_the_key_bucket_is_private_and_owner_enforced(usual: Deployment) -> None:
    block = usual.only(engine.PUBLIC_ACCESS_BLOCK).inputs
    names = ("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets")
    assert {name: block[name] for name in names} == dict.fromkeys(names, True)
    assert usual.only(engine.BUCKET_OWNERSHIP).inputs["rule"] == {"objectOwnership": "BucketOwnerEnforced"}


def test_the_key_bucket_is_encrypted(usual: Deployment) -> None:
    (rule,) = usual.only(engine.BUCKET_ENCRYPTION).inputs["rules"]
    assert rule["applyServerSideEncryptionByDefault"] == {"sseAlgorithm": "AES256"}


def test_keys_and_their_versions_expire_after_a_day_and_sent_folders_after_a_month(usual: Deployment) -> None:
    rules = usual.only(engine.BUCKET_LIFECYCLE).inputs["rules"]
    assert {rule["status"] for rule in rules} == {"Enabled"}
    expire = {rule["filter"]["prefix"]: rule["expiration"]["days"] for rule in rules if "expiration" in rule}
    assert expire == {"nodes/": 1, "jobs/": 1, "workdirs/": 30}
    assert [rule["filter"]["prefix"] for rule in rules if "abortIncompleteMultipartUpload" in rule] == [""], "of all objects"
    assert not [resource.type for resource in usual.resources if "Versioning" in resource.type or "versioning" in resource.inputs]


def test_the_key_bucket_does_not_block_destroy(usual: Deployment) -> None:
    assert usual.only(engine.BUCKET).inputs["forceDestroy"] is True


def test_the_key_bucket_requires_tls(usual: Deployment) -> None:
    policy = json.loads(usual.only(engine.BUCKET_POLICY).inputs["policy"])
    arn = usual.only(engine.BUCKET).state["arn"]
    for resource in (arn, f"{arn}/nodes/x"):
        assert decide(Request("s3:GetObject", resource, {"aws:SecureTransport": False}), policy) == "explicit deny"
        assert decide(Request("s3:GetObject", resource, {"aws:SecureTransport": True}), policy) == "implicit deny"


# --- existing file systems

GROUPS = {
    "us-west-2a": {"sg-shared": frozenset({"10.0.0.0/16"}), "sg-zone-a": frozenset[str]()},
    "us-west-2b": {"sg-shared": frozenset({"10.0.0.0/16"})},
    "us-west-2c": {"sg-unused-zone": frozenset[str]()},
}


def existing(*, adds_rule: bool, ec2: bool = False) -> Deployment:
    efs = {"fileSystemId": world.FILE_SYSTEM, "addIngressRule": adds_rule}
    make = world.plain_settings if ec2 else world.settings
    settings = make(world.pool(), network=world.existing_network(), storage={"efs": efs})
    zones = dict.fromkeys(GROUPS, world.VPC)
    return deploy(
        settings, world.facts(settings, efs={world.FILE_SYSTEM: FileSystem(world.FILE_SYSTEM, "available", zones, GROUPS)})
    )


def test_nothing_of_an_existing_file_system_changes_by_default() -> None:
    deployment = existing(adds_rule=False)
    assert not deployment.created(engine.FILE_SYSTEM) and not deployment.created(engine.MOUNT_TARGET)
    assert not deployment.created(engine.INGRESS_RULE, "storage")


def test_on_request_nodes_are_admitted_to_one_group_of_each_mount_target_that_they_use() -> None:
    (rule,) = existing(adds_rule=True).created(engine.INGRESS_RULE, "storage")
    assert rule.name == "gpumpi-test-storage-sg-shared-nodes-ingress"
    assert (rule.inputs["securityGroupId"], rule.inputs["referencedSecurityGroupId"]) == ("sg-shared", "gpumpi-test-nodes-id")
    assert (rule.inputs["ipProtocol"], rule.inputs["fromPort"], rule.inputs["toPort"]) == ("tcp", 2049, 2049)


@pytest.mark.parametrize("token", [engine.INSTANCE, engine.GROUP])
def test_ec2_nodes_start_after_the_rule_that_admits_them_and_end_before_it(token: str) -> None:
    deployment = existing(adds_rule=True, ec2=True)
    assert deployment.only(engine.INGRESS_RULE, "storage").name in deployment.names_before(deployment.only(token))
