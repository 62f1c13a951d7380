"""How source conditions in trust policies, and VPC endpoint policies, apply to the sessions of pods and instances."""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from infra.components import endpoint_policies, iam, trust_policies
from infra.components.iam import Account
from localcloud.aws import gateway, sts
from localcloud.aws.account import ACCOUNT
from localcloud.hosts import credentials as instances
from localcloud.kubernetes.pod_identity.credentials import CredentialsRefused, Pod, assume_pod_role
from testkit.aws_clients import REGION, Client
from testkit.eks_world import World, make_trust_policy
from tests.local_aws.documents import allow_statement, make_policy

POD = Pod("jobs", "trainer", "train-0", "8d3e")
OWN, OTHER = Account(ACCOUNT, REGION, "aws"), Account("999999999999", REGION, "aws")


@pytest.fixture
def world(aws: Client) -> World:
    world = World(aws)
    world.cluster()
    return world


def create_pod_session(world: World, role: str | None = None) -> dict[str, str]:
    """Associate the role with the pod's service account and return credentials for the pod."""
    world.eks.create_pod_identity_association(
        clusterName="demo", namespace="jobs", serviceAccount="trainer", roleArn=role or world.pod_role
    )
    with gateway.LOCK:
        return assume_pod_role(ACCOUNT, REGION, "demo", POD)


def grant_actions(world: World, *actions: str) -> None:
    document = make_policy(allow_statement(Action=list(actions), Resource="*"))
    world.client("iam").put_role_policy(RoleName="pod", PolicyName="work", PolicyDocument=document)


def create_endpoint(world: World, service: str, document: str, *, associated: bool = True) -> None:
    """Create a VPC endpoint for a service. If `associated` is false, a gateway endpoint's route table has no subnet."""
    settings: dict[str, Any] = {"VpcEndpointType": "Interface", "SubnetIds": world.subnets[:1], "PrivateDnsEnabled": True}
    if service == "s3":
        table = world.ec2.create_route_table(VpcId=world.vpc)["RouteTable"]["RouteTableId"]
        if associated:
            for subnet in world.subnets:
                world.ec2.associate_route_table(RouteTableId=table, SubnetId=subnet)
        settings = {"VpcEndpointType": "Gateway", "RouteTableIds": [table]}
    else:
        world.ec2.modify_vpc_attribute(VpcId=world.vpc, EnableDnsHostnames={"Value": True})
    world.ec2.create_vpc_endpoint(
        VpcId=world.vpc, ServiceName=f"com.amazonaws.{REGION}.{service}", PolicyDocument=document, **settings
    )


def create_bucket(world: World) -> Any:
    s3 = world.client("s3")
    s3.create_bucket(Bucket="data", CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.put_object(Bucket="data", Key="x", Body=b"x")
    return s3


# --- trust policies


def make_restricted_trust(source: Account) -> str:
    document = json.loads(make_trust_policy("pods.eks.amazonaws.com", "sts:AssumeRole", "sts:TagSession"))
    document["Statement"][0]["Condition"] = {"StringEquals": {"aws:SourceAccount": source.id}}
    return json.dumps(document)


def test_pods_get_a_role_that_trusts_only_pod_identity_of_their_account(world: World) -> None:
    assert create_pod_session(world, world.create_role("ours", make_restricted_trust(OWN)))["AccountId"] == ACCOUNT


def test_pods_do_not_get_a_role_that_trusts_pod_identity_of_another_account(world: World) -> None:
    with pytest.raises(CredentialsRefused, match="AccessDeniedException"):
        create_pod_session(world, world.create_role("theirs", make_restricted_trust(OTHER)))


def test_the_trust_policy_generated_by_the_program_admits_its_pods(world: World) -> None:
    document = iam.to_json(trust_policies.build_pod_trust_policy(OWN, "demo", "jobs", "trainer"))
    assert create_pod_session(world, world.create_role("own", document))["AccountId"] == ACCOUNT


@pytest.mark.parametrize(
    ("account", "name", "trusted"), [(OWN, "second", True), (OWN, "another", False), (OTHER, "second", False)]
)
def test_eks_accepts_a_cluster_role_only_for_the_cluster_named_in_its_trust_policy(
    world: World, account: Account, name: str, trusted: bool
) -> None:
    role = world.create_role("control-plane", iam.to_json(trust_policies.build_cluster_trust_policy(account, name)))
    if trusted:
        assert world.cluster("second", roleArn=role)["status"] == "ACTIVE"
    else:
        with pytest.raises(ClientError, match="could not be assumed"):
            world.cluster("second", roleArn=role)


# --- VPC endpoints


def test_a_pod_can_write_through_the_s3_endpoint_created_by_the_program(world: World) -> None:
    create_bucket(world)
    grant_actions(world, "s3:PutObject")
    create_endpoint(world, "s3", iam.to_json(endpoint_policies.build_s3_endpoint_policy(OWN, has_internet=False)))
    world.create_session_client("s3", create_pod_session(world)).put_object(Bucket="data", Key="y", Body=b"y")


def test_an_s3_endpoint_policy_for_another_account_denies_a_pod_with_write_permission(world: World) -> None:
    create_bucket(world)
    grant_actions(world, "s3:PutObject")
    create_endpoint(world, "s3", iam.to_json(endpoint_policies.build_s3_endpoint_policy(OTHER, has_internet=True)))
    with pytest.raises(ClientError, match="because no VPC endpoint policy allows the s3:PutObject action"):
        world.create_session_client("s3", create_pod_session(world)).put_object(Bucket="data", Key="y", Body=b"y")


def test_a_gateway_endpoint_without_a_route_in_the_subnets_does_not_apply(world: World) -> None:
    create_bucket(world)
    grant_actions(world, "s3:PutObject")
    create_endpoint(
        world, "s3", iam.to_json(endpoint_policies.build_s3_endpoint_policy(OTHER, has_internet=True)), associated=False
    )
    world.create_session_client("s3", create_pod_session(world)).put_object(Bucket="data", Key="y", Body=b"y")


def test_an_endpoint_policy_that_allows_reads_grants_no_permission(world: World) -> None:
    create_bucket(world)
    grant_actions(world, "s3:PutObject")
    create_endpoint(world, "s3", iam.to_json(endpoint_policies.build_s3_endpoint_policy(OTHER, has_internet=True)))
    with pytest.raises(ClientError, match="because no identity-based policy allows the s3:GetObject action"):
        world.create_session_client("s3", create_pod_session(world)).get_object(Bucket="data", Key="x")


def test_an_explicit_deny_in_the_endpoint_policy_wins(world: World) -> None:
    create_bucket(world)
    grant_actions(world, "s3:GetObject")
    deny_reads = {"Effect": "Deny", "Principal": "*", "Action": "s3:GetObject", "Resource": "*"}
    create_endpoint(world, "s3", make_policy(allow_statement(Principal="*", Action="*", Resource="*"), deny_reads))
    with pytest.raises(ClientError, match="with an explicit deny in a VPC endpoint policy"):
        world.create_session_client("s3", create_pod_session(world)).get_object(Bucket="data", Key="x")


def test_the_endpoint_policy_of_its_subnet_applies_to_an_instance(world: World) -> None:
    create_bucket(world)
    world.client("iam").put_role_policy(
        RoleName="node", PolicyName="work", PolicyDocument=make_policy(allow_statement(Action="s3:GetObject", Resource="*"))
    )
    create_endpoint(world, "s3", make_policy(allow_statement(Principal="*", Action="s3:PutObject", Resource="*")))
    with gateway.LOCK:
        session = sts.open_session(
            REGION,
            world.node_role,
            ("Service", instances.SERVICE),
            name="i-0123456789abcdef0",
            lifetime=instances.LIFETIME,
            tags={},
            context={},
            subnets=world.subnets[:1],
        )
    keys = {"AccessKeyId": session.access_key_id, "SecretAccessKey": session.secret_access_key, "Token": session.session_token}
    with pytest.raises(ClientError, match="because no VPC endpoint policy allows the s3:GetObject action"):
        world.create_session_client("s3", keys).get_object(Bucket="data", Key="x")


def test_endpoint_policies_do_not_apply_to_requests_of_the_administrator(world: World) -> None:
    s3 = create_bucket(world)
    create_endpoint(world, "s3", make_policy(allow_statement(Principal="*", Action="s3:PutObject", Resource="*")))
    assert s3.get_object(Bucket="data", Key="x")["Body"].read() == b"x"
