"""EC2 handlers wait and retry where the official provider does, and report AWS's error where a retry cannot help."""

import itertools

import pytest
from botocore.exceptions import ClientError

from localcloud.aws import durations, faults
from localcloud.aws.faults import Fault
from localcloud.engine.aws import lifecycle
from localcloud.engine.aws.lifecycle import InitializationFailed
from localcloud.engine.aws.resource import RESOURCES
from localcloud.engine.aws.resources import ec2_security_group
from localcloud.engine.aws.resources.requests import retry
from tests.engine import ec2_world as w
from tests.engine.ec2_inputs import INPUTS
from tests.engine.ec2_world import World, empty_world, shared_account  # noqa: F401


def inject_fault(operation: str, code: str, times: int = 2, message: str = "has dependencies") -> None:
    faults.add_fault(Fault("ec2", operation, code, message, times=times))


@pytest.mark.parametrize(
    ("token", "operation", "code"),
    [
        (w.VPC, "DeleteVpc", "DependencyViolation"),
        (w.SUBNET, "DeleteSubnet", "DependencyViolation"),
        (w.INTERNET_GATEWAY, "DetachInternetGateway", "DependencyViolation"),
        (w.INTERNET_GATEWAY, "DeleteInternetGateway", "DependencyViolation"),
        (w.ROUTE_TABLE, "DeleteRouteTable", "DependencyViolation"),
        (w.SECURITY_GROUP, "DeleteSecurityGroup", "DependencyViolation"),
        (w.SECURITY_GROUP, "DeleteSecurityGroup", "InvalidGroup.InUse"),
    ],
)
def test_a_deletion_waits_for_dependent_resources(token: str, operation: str, code: str, ec2_world: World) -> None:
    thing = ec2_world.create(token, **INPUTS[token][0](ec2_world))
    inject_fault(operation, code)
    thing.delete()
    assert faults.list_active_faults() == []
    assert thing.refresh() is None


def test_an_exhausted_retry_reports_the_error_from_aws(ec2_world: World) -> None:
    ec2 = ec2_world.ec2
    assert ec2_world.subnet
    with pytest.raises(ClientError, match="DependencyViolation"):
        retry(ec2_world.aws, "VPC", lambda: ec2.delete_vpc(VpcId=ec2_world.vpc), "DependencyViolation", timeout=0.01)


def test_authorization_errors_are_not_retried(ec2_world: World) -> None:
    thing = ec2_world.create(w.SUBNET, **INPUTS[w.SUBNET][0](ec2_world))
    inject_fault("DeleteSubnet", "UnauthorizedOperation", message="You are not authorized")
    with pytest.raises(lifecycle.OperationFailed, match=r"deleting EC2 Subnet \(subnet-.*UnauthorizedOperation: You are not"):
        thing.delete()
    assert [fault.times for fault in faults.list_active_faults()] == [1]


def test_flow_logs_retry_while_their_new_role_propagates(ec2_world: World) -> None:
    inject_fault("CreateFlowLogs", "InvalidParameter", message="Unable to assume given IAM role")
    ec2_world.create(w.FLOW_LOG, **INPUTS[w.FLOW_LOG][0](ec2_world))
    inject_fault("CreateFlowLogs", "InvalidParameter", message="something else", times=1)
    with pytest.raises(lifecycle.OperationFailed, match="something else"):
        ec2_world.create(w.FLOW_LOG, **INPUTS[w.FLOW_LOG][1](ec2_world))


def test_a_failed_nat_gateway_is_recorded_with_the_reason(ec2_world: World) -> None:
    inputs = {"subnetId": ec2_world.subnet, "allocationId": ec2_world.address}  # a subnet without a route to the internet
    with pytest.raises(InitializationFailed, match=r"unexpected state 'failed': Gateway\.NotAttached: Network vpc-") as failure:
        ec2_world.create(w.NAT_GATEWAY, **inputs)
    assert failure.value.id.startswith("nat-")
    lifecycle.delete(RESOURCES[w.NAT_GATEWAY], ec2_world.aws, failure.value.id, failure.value.state)


@pytest.mark.parametrize(
    ("token", "operation"),
    [
        (w.VPC, "ModifyVpcAttribute"),
        (w.SUBNET, "ModifySubnetAttribute"),
        (w.INTERNET_GATEWAY, "AttachInternetGateway"),
        (w.ROUTE_TABLE, "CreateRoute"),
        (w.SECURITY_GROUP, "AuthorizeSecurityGroupIngress"),
        (w.DEFAULT_SECURITY_GROUP, "AuthorizeSecurityGroupEgress"),
    ],
)
def test_a_created_resource_is_recorded_even_if_its_settings_fail(token: str, operation: str, ec2_world: World) -> None:
    inputs = INPUTS[token][0](ec2_world)
    inject_fault(operation, "InternalError", times=1, message="bad day")
    faults.list_active_faults()[0].status = 400  # the client would retry the call if the status were 500
    with pytest.raises(InitializationFailed, match=f"creating .*{operation}.*InternalError: bad day") as failure:
        ec2_world.create(token, **inputs)
    resource, id = RESOURCES[token], failure.value.id
    assert resource.read(ec2_world.aws, id, failure.value.state) is not None
    lifecycle.delete(resource, ec2_world.aws, id, failure.value.state)


@pytest.mark.parametrize("token", [w.NAT_GATEWAY, w.VPC_ENDPOINT])
def test_creation_and_deletion_wait_until_aws_has_finished(token: str, ec2_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = INPUTS[token][-1](ec2_world)
    clock = itertools.count(step=20)
    monkeypatch.setattr(durations, "now", lambda: float(next(clock)))
    durations.set_factor(1)
    try:
        thing = ec2_world.create(token, **inputs)
        assert thing.state.get("state", "available") == "available"
        thing.delete()
    finally:
        durations.set_factor(0)
    described = {
        w.NAT_GATEWAY: lambda: ec2_world.ec2.describe_nat_gateways()["NatGateways"],
        w.VPC_ENDPOINT: lambda: ec2_world.ec2.describe_vpc_endpoints()["VpcEndpoints"],
    }[token]()
    assert {gateway["State"] for gateway in described} <= {"deleted"}


def test_revoke_rules_on_delete_allows_deleting_a_group_that_others_reference(
    ec2_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ec2_security_group, "FIRST_TRY", 0.01)
    group = ec2_world.create(w.SECURITY_GROUP, vpcId=ec2_world.vpc, revokeRulesOnDelete=True)
    ec2_world.create(
        w.INGRESS_RULE, securityGroupId=ec2_world.other_security_group, ipProtocol="-1", referencedSecurityGroupId=group.id
    )
    group.delete()
    assert group.refresh() is None
    assert (
        ec2_world.ec2.describe_security_groups(GroupIds=[ec2_world.other_security_group])["SecurityGroups"][0]["IpPermissions"]
        == []
    )


def test_deleting_the_default_security_group_only_removes_it_from_the_state(ec2_world: World) -> None:
    group = ec2_world.create(w.DEFAULT_SECURITY_GROUP, vpcId=ec2_world.vpc)
    assert (group.state["ingress"], group.state["egress"], group.state["name"]) == ([], [], "default")
    group.delete()
    assert group.refresh() is not None


def test_a_route_has_the_same_id_as_in_terraform(ec2_world: World) -> None:
    thing = ec2_world.create(w.ROUTE, **INPUTS[w.ROUTE][0](ec2_world))
    assert thing.id == f"r-{ec2_world.route_table}1080289494"


def test_an_autoscaling_group_tag_has_the_same_id_as_in_terraform(ec2_world: World) -> None:
    thing = ec2_world.create(w.AUTOSCALING_TAG, **INPUTS[w.AUTOSCALING_TAG][0](ec2_world))
    assert thing.id == "nodes,k8s.io/cluster-autoscaler/node-template/label/gpu"
