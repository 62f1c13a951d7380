"""FSx for Lustre: file system, network, data repository, and settings of nodes and jobs."""

import base64
import re
from typing import Any

import pytest

from infra.facts.model import LustreFileSystem
from tests.program import engine
from tests.program.engine import Deployment, deploy
from tests.pure import world

FILE_SYSTEM = "fs-0123456789abcdef0"
DATA = {"path": "s3://sets/imagenet"}


def deploy_lustre(ec2: bool = False, **fsx: Any) -> Deployment:
    make = world.ec2_settings if ec2 else world.settings
    settings = make(world.pool(), storage={"fsx": fsx})
    return deploy(settings, world.account_facts(settings))


def deploy_existing_lustre(**fsx: Any) -> Deployment:
    settings = world.settings(
        world.pool(), network=world.existing_network(), storage={"fsx": {"fileSystemId": FILE_SYSTEM, **fsx}}
    )
    file_system = LustreFileSystem(
        id=FILE_SYSTEM,
        state="AVAILABLE",
        mount_targets={"us-west-2a": world.VPC},
        subnet_id=world.subnet_id("a"),
        size_gib=1200,
        dns_name=f"{FILE_SYSTEM}.fsx.us-west-2.amazonaws.com",
        mount_name="abcdefgh",
        admitted={"us-west-2a": {"sg-lustre": frozenset({"10.0.0.0/16"})}},
    )
    return deploy(settings, world.account_facts(settings, lustre={FILE_SYSTEM: file_system}))


@pytest.fixture(scope="module")
def default_deployment() -> Deployment:
    return deploy_lustre(dataRepository=DATA)


def test_a_stack_without_fsx_has_no_lustre_resource() -> None:
    settings = world.settings(world.pool())
    deployment = deploy(settings, world.account_facts(settings))
    assert not [resource.name for resource in deployment.resources if "lustre" in resource.name or "fsx" in resource.type]


def test_a_persistent_file_system_is_encrypted_with_its_own_key(default_deployment: Deployment) -> None:
    spec = default_deployment.find_resource(engine.LUSTRE).inputs
    assert spec["kmsKeyId"] == default_deployment.find_resource(engine.KEY, "lustre").state["arn"]
    assert (spec["deploymentType"], spec["storageCapacity"], spec["perUnitStorageThroughput"]) == ("PERSISTENT_2", 1200, 125)
    assert (spec["dataCompressionType"], spec["fileSystemTypeVersion"]) == ("LZ4", "2.15")


def test_a_persistent_file_system_can_use_a_key_of_the_user() -> None:
    key = "arn:aws:kms:us-west-2:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
    deployment = deploy_lustre(kmsKeyArn=key)
    assert deployment.find_resource(engine.LUSTRE).inputs["kmsKeyId"] == key
    assert not deployment.find_resources(engine.KEY, "lustre")


def test_a_scratch_file_system_has_no_key_and_no_throughput_setting() -> None:
    deployment = deploy_lustre(deployment="SCRATCH_2", sizeGib=2400, compression=False)
    inputs = deployment.find_resource(engine.LUSTRE).inputs
    assert (
        not deployment.find_resources(engine.KEY, "lustre")
        and "perUnitStorageThroughput" not in inputs
        and "kmsKeyId" not in inputs
    )
    assert (inputs["storageCapacity"], inputs["dataCompressionType"]) == (2400, "NONE")


def test_file_servers_can_reach_each_other_before_the_file_system_is_created(default_deployment: Deployment) -> None:
    """FSx checks the security group when it creates the file system."""
    before = default_deployment.list_dependency_names(default_deployment.find_resource(engine.LUSTRE))
    assert {
        f"gpumpi-test-lustre-servers-{port}-{direction}" for port in (988, 1018) for direction in ("ingress", "egress")
    } <= set(before)


def test_nodes_and_file_servers_admit_each_other_on_lustre_ports(default_deployment: Deployment) -> None:
    rules = {
        rule.name.removeprefix("gpumpi-test-lustre-"): rule.inputs
        for rule in default_deployment.find_resources(engine.INGRESS_RULE, "lustre")
    }
    ports = {(rule["fromPort"], rule["toPort"]) for rule in rules.values()}
    assert ports == {(988, 988), (1018, 1023)}
    assert rules["nodes-988-ingress"]["referencedSecurityGroupId"] == "gpumpi-test-nodes-id"
    assert rules["from-servers-988-ingress"]["securityGroupId"] == "gpumpi-test-nodes-id"


def test_a_bucket_is_linked_without_exporting_file_deletions(default_deployment: Deployment) -> None:
    inputs = default_deployment.find_resource(engine.DATA_REPOSITORY).inputs
    assert (inputs["dataRepositoryPath"], inputs["fileSystemPath"]) == ("s3://sets/imagenet", "/data")
    assert inputs["s3"]["autoImportPolicy"]["events"] == ["NEW", "CHANGED", "DELETED"]
    assert inputs["s3"]["autoExportPolicy"]["events"] == ["NEW", "CHANGED"]
    assert inputs["batchImportMetaDataOnCreate"] is True


@pytest.mark.parametrize("protect", [True, False])
def test_the_protect_setting_applies_only_to_the_file_system(protect: bool) -> None:
    deployment = deploy_lustre(protect=protect)
    assert {resource.type for resource in deployment.resources if resource.protected} == ({engine.LUSTRE} if protect else set())


def test_up_does_not_change_an_existing_file_system() -> None:
    stack = deploy_existing_lustre()
    assert not [resource.name for resource in stack.resources if resource.type.startswith("aws:") and "lustre" in resource.name]
    assert stack.outputs["lustreMountName"] == "abcdefgh"


def test_nodes_are_admitted_to_an_existing_file_system_if_configured() -> None:
    rules = deploy_existing_lustre(addIngressRule=True).find_resources(engine.INGRESS_RULE, "lustre")
    assert {(row.inputs["securityGroupId"], row.inputs["fromPort"]) for row in rules} == {("sg-lustre", 988), ("sg-lustre", 1018)}


def test_the_csi_driver_is_installed_only_with_a_lustre_file_system(default_deployment: Deployment) -> None:
    name = "gpumpi-test-service-aws-fsx-csi-driver"
    assert name in {addon.name for addon in default_deployment.find_resources(engine.ADDON)}
    settings = world.settings(world.pool())
    assert name not in {addon.name for addon in deploy(settings, world.account_facts(settings)).find_resources(engine.ADDON)}


def read_user_data(deployment: Deployment, role: str) -> str:
    owner = (
        deployment.find_resource(engine.INSTANCE)
        if role == "master"
        else deployment.find_resource(engine.LAUNCH_TEMPLATE, f"-{role}")
    )
    return base64.b64decode(owner.inputs.get("userDataBase64") or owner.inputs["userData"]).decode()


def test_ec2_nodes_mount_the_file_system_and_the_head_node_sets_its_owner() -> None:
    deployment = deploy_lustre(ec2=True, dataRepository=DATA)
    state = deployment.find_resource(engine.LUSTRE).state
    line = f"{state['dnsName']}@tcp:/{state['mountName']} /fsx lustre defaults,relatime,flock,_netdev 0 0"
    head, worker = read_user_data(deployment, "master"), read_user_data(deployment, "worker")
    assert line in head and line in worker
    assert re.search(r"^chown 1000:1000 /fsx /fsx/data$", head, re.MULTILINE) and "chown 1000:1000" not in worker
