"""Shared storage and the key bucket."""

import json
from typing import Any

import pytest

from infra.facts.model import FileSystem
from localcloud.aws.policy_evaluation import Request, evaluate_request
from tests.program import engine
from tests.program.engine import Deployment, deploy
from tests.pure import world


def deploy_storage(**efs: Any) -> Deployment:
    settings = world.settings(world.pool(), storage={"efs": efs})
    return deploy(settings, world.account_facts(settings))


@pytest.fixture(scope="module")
def default_deployment() -> Deployment:
    return deploy_storage()


# --- file system


def test_the_file_system_is_encrypted_with_its_own_key_and_has_elastic_throughput(default_deployment: Deployment) -> None:
    inputs = default_deployment.find_resource(engine.FILE_SYSTEM).inputs
    assert (
        inputs["encrypted"] is True and inputs["kmsKeyId"] == default_deployment.find_resource(engine.KEY, "storage").state["arn"]
    )
    assert inputs["throughputMode"] == "elastic" and inputs["performanceMode"] == "generalPurpose"


def test_every_zone_has_a_mount_target_that_admits_only_nodes(default_deployment: Deployment) -> None:
    targets = default_deployment.find_resources(engine.MOUNT_TARGET)
    assert sorted(target.name for target in targets) == [f"gpumpi-test-storage-us-west-2{zone}-mount-target" for zone in "abc"]
    (group,) = {target.inputs["securityGroups"][0] for target in targets}
    rule = default_deployment.find_resource(engine.INGRESS_RULE, "storage").inputs
    assert rule["securityGroupId"] == group
    assert (rule["ipProtocol"], rule["fromPort"], rule["toPort"]) == ("tcp", 2049, 2049)
    assert rule["referencedSecurityGroupId"] == "gpumpi-test-nodes-id"


def test_the_access_point_has_one_directory_owned_by_the_image_user(default_deployment: Deployment) -> None:
    point = default_deployment.find_resource(engine.ACCESS_POINT).inputs
    assert point["posixUser"] == {"uid": 1000, "gid": 1000}
    assert point["rootDirectory"] == {
        "path": "/gpumpi",
        "creationInfo": {"ownerUid": 1000, "ownerGid": 1000, "permissions": "0775"},
    }


@pytest.mark.parametrize(("tls", "decision"), [(True, "allow"), (False, "explicit deny")])
def test_the_file_system_policy_rejects_connections_without_tls(default_deployment: Deployment, tls: bool, decision: str) -> None:
    policy = json.loads(default_deployment.find_resource(engine.FILE_SYSTEM_POLICY).inputs["policy"])
    context = {"aws:SecureTransport": tls, "elasticfilesystem:AccessedViaMountTarget": True}
    request = Request("elasticfilesystem:ClientMount", default_deployment.find_resource(engine.FILE_SYSTEM).state["arn"], context)
    assert evaluate_request(request, policy) == decision


@pytest.mark.parametrize(("backup", "policies"), [(True, 1), (False, 0)])
def test_backups_are_enabled_if_configured(backup: bool, policies: int) -> None:
    assert len(deploy_storage(backup=backup).find_resources(engine.BACKUP_POLICY)) == policies


@pytest.mark.parametrize(("days", "after"), [(1, "AFTER_1_DAY"), (30, "AFTER_30_DAYS"), (365, "AFTER_365_DAYS")])
def test_unread_files_move_to_infrequent_access_if_configured(days: int, after: str) -> None:
    assert deploy_storage(infrequentAccessAfterDays=days).find_resource(engine.FILE_SYSTEM).inputs["lifecyclePolicies"] == [
        {"transitionToIa": after},
        {"transitionToPrimaryStorageClass": "AFTER_1_ACCESS"},
    ]


def test_files_stay_in_standard_storage_by_default(default_deployment: Deployment) -> None:
    assert not default_deployment.find_resource(engine.FILE_SYSTEM).inputs.get("lifecyclePolicies")


@pytest.mark.parametrize("protect", [True, False])
def test_the_protect_setting_applies_only_to_the_file_system(protect: bool) -> None:
    stack = deploy_storage(protect=protect)
    assert {resource.type for resource in stack.resources if resource.protected} == ({engine.FILE_SYSTEM} if protect else set())


@pytest.mark.mission("C", "EFS")
def test_an_existing_file_system_gets_only_an_access_point() -> None:
    deployment = deploy_storage(fileSystemId=world.FILE_SYSTEM)
    assert {resource.type for resource in deployment.resources if resource.type.startswith("aws:efs/")} == {engine.ACCESS_POINT}
    assert deployment.find_resource(engine.ACCESS_POINT).inputs["fileSystemId"] == world.FILE_SYSTEM
    assert deployment.outputs["fileSystemId"] == world.FILE_SYSTEM
    assert not deployment.find_resources(engine.KEY, "storage")


# --- key bucket


def test_the_key_bucket_is_private_and_has_acls_disabled(default_deployment: Deployment) -> None:
    block = default_deployment.find_resource(engine.PUBLIC_ACCESS_BLOCK).inputs
    names = ("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets")
    assert {name: block[name] for name in names} == dict.fromkeys(names, True)
    assert default_deployment.find_resource(engine.BUCKET_OWNERSHIP).inputs["rule"] == {"objectOwnership": "BucketOwnerEnforced"}


def test_the_key_bucket_is_encrypted(default_deployment: Deployment) -> None:
    (rule,) = default_deployment.find_resource(engine.BUCKET_ENCRYPTION).inputs["rules"]
    assert rule["applyServerSideEncryptionByDefault"] == {"sseAlgorithm": "AES256"}


def test_keys_expire_after_a_day_and_sent_folders_after_a_month(default_deployment: Deployment) -> None:
    rules = default_deployment.find_resource(engine.BUCKET_LIFECYCLE).inputs["rules"]
    assert {rule["status"] for rule in rules} == {"Enabled"}
    expire = {rule["filter"]["prefix"]: rule["expiration"]["days"] for rule in rules if "expiration" in rule}
    assert expire == {"nodes/": 1, "jobs/": 1, "workdirs/": 30}
    assert [rule["filter"]["prefix"] for rule in rules if "abortIncompleteMultipartUpload" in rule] == [""], "of all objects"
    assert not [
        resource.type
        for resource in default_deployment.resources
        if "Versioning" in resource.type or "versioning" in resource.inputs
    ]


def test_the_key_bucket_is_deleted_with_its_objects(default_deployment: Deployment) -> None:
    assert default_deployment.find_resource(engine.BUCKET).inputs["forceDestroy"] is True


def test_the_key_bucket_requires_tls(default_deployment: Deployment) -> None:
    policy = json.loads(default_deployment.find_resource(engine.BUCKET_POLICY).inputs["policy"])
    arn = default_deployment.find_resource(engine.BUCKET).state["arn"]
    for resource in (arn, f"{arn}/nodes/x"):
        assert evaluate_request(Request("s3:GetObject", resource, {"aws:SecureTransport": False}), policy) == "explicit deny"
        assert evaluate_request(Request("s3:GetObject", resource, {"aws:SecureTransport": True}), policy) == "implicit deny"


# --- existing file systems

GROUPS = {
    "us-west-2a": {"sg-shared": frozenset({"10.0.0.0/16"}), "sg-zone-a": frozenset[str]()},
    "us-west-2b": {"sg-shared": frozenset({"10.0.0.0/16"})},
    "us-west-2c": {"sg-unused-zone": frozenset[str]()},
}


def deploy_existing_storage(*, adds_rule: bool, ec2: bool = False) -> Deployment:
    efs = {"fileSystemId": world.FILE_SYSTEM, "addIngressRule": adds_rule}
    make = world.ec2_settings if ec2 else world.settings
    settings = make(world.pool(), network=world.existing_network(), storage={"efs": efs})
    zones = dict.fromkeys(GROUPS, world.VPC)
    return deploy(
        settings,
        world.account_facts(settings, efs={world.FILE_SYSTEM: FileSystem(world.FILE_SYSTEM, "available", zones, GROUPS)}),
    )


def test_an_existing_file_system_is_not_changed_by_default() -> None:
    deployment = deploy_existing_storage(adds_rule=False)
    assert not deployment.find_resources(engine.FILE_SYSTEM) and not deployment.find_resources(engine.MOUNT_TARGET)
    assert not deployment.find_resources(engine.INGRESS_RULE, "storage")


def test_nodes_are_admitted_to_one_security_group_per_mount_target_if_configured() -> None:
    (rule,) = deploy_existing_storage(adds_rule=True).find_resources(engine.INGRESS_RULE, "storage")
    assert rule.name == "gpumpi-test-storage-sg-shared-nodes-ingress"
    assert (rule.inputs["securityGroupId"], rule.inputs["referencedSecurityGroupId"]) == ("sg-shared", "gpumpi-test-nodes-id")
    assert (rule.inputs["ipProtocol"], rule.inputs["fromPort"], rule.inputs["toPort"]) == ("tcp", 2049, 2049)


@pytest.mark.parametrize("token", [engine.INSTANCE, engine.GROUP])
def test_ec2_nodes_are_created_after_and_deleted_before_their_ingress_rule(token: str) -> None:
    deployment = deploy_existing_storage(adds_rule=True, ec2=True)
    assert deployment.find_resource(engine.INGRESS_RULE, "storage").name in deployment.list_dependency_names(
        deployment.find_resource(token)
    )
