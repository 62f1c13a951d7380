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
from localcloud.kubernetes.pod_identity.credentials import CredentialsRefused, Pod, assume
from testkit.aws_clients import REGION, Client
from testkit.eks_world import World, trust
from tests.local_aws.documents import allow, policy

POD = Pod("jobs", "trainer", "train-0", "8d3e")
OWN, OTHER = Account(ACCOUNT, REGION, "aws"), Account("999999999999", REGION, "aws")


@pytest.fixture
def world(aws: Client) -> World:
    world = World(aws)
    world.cluster()
    return world


def pod_session(world: World, role: str | None = None) -> dict[str, str]:
    """Associate the role with the pod's service account and return credentials for the pod."""
    world.eks.create_pod_identity_association(
        clusterName="demo", namespace="jobs", serviceAccount="trainer", roleArn=role or world.pod_role
    )
    with gateway.LOCK:
        return assume(ACCOUNT, REGION, "demo", POD)


def permit(world: World, *actions: str) -> None:
    document = policy(allow(Action=list(actions), Resource="*"))
    world.client("iam").put_role_policy(RoleName="pod", PolicyName="work", PolicyDocument=document)


def endpoint(world: World, service: str, document: str, *, associated: bool = True) -> None:
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


def bucket(world: World) -> Any:
    s3 = world.client("s3")
    s3.create_bucket(Bucket="data", CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.put_object(Bucket="data", Key="x", Body=b"x")
    return s3


# --- trust policies


def restrict_trust(source: Account) -> str:
    document = json.loads(trust("pods.eks.amazonaws.com", "sts:AssumeRole", "sts:TagSession"))
    document["Statement"][0]["Condition"] = {"StringEquals": {"aws:SourceAccount": source.id}}
    return json.dumps(document)


def test_pods_get_a_role_that_trusts_pod_identity_of_their_account_only(world: World) -> None:
    assert pod_session(world, world.role("ours", restrict_trust(OWN)))["AccountId"] == ACCOUNT


def test_pods_do_not_get_a_role_that_trusts_pod_identity_of_another_account(world: World) -> None:
    with pytest.raises(CredentialsRefused, match="AccessDeniedException"):
        pod_session(world, world.role("theirs", restrict_trust(OTHER)))


def test_the_programs_trust_policy_fits_its_pods(world: World) -> None:
    document = iam.to_json(trust_policies.assumed_by_pods(OWN, "demo", "jobs", "trainer"))
    assert pod_session(world, world.role("own", document))["AccountId"] == ACCOUNT


@pytest.mark.parametrize(
    ("account", "name", "trusted"), [(OWN, "second", True), (OWN, "another", False), (OTHER, "second", False)]
)
def test_eks_uses_a_cluster_role_only_for_the_cluster_that_it_trusts(
    world: World, account: Account, name: str, trusted: bool
) -> None:
    role = world.role("control-plane", iam.to_json(trust_policies.assumed_by_cluster(account, name)))
    if trusted:
        assert world.cluster("second", roleArn=role)["status"] == "ACTIVE"
    else:
        with pytest.raises(ClientError, match="could not be assumed"):
            world.cluster("second", roleArn=role)


# --- VPC endpoints


def test_a_pod_writes_through_the_programs_s3_endpoint(world: World) -> None:
    bucket(world)
    permit(world, "s3:PutObject")
    endpoint(world, "s3", iam.to_json(endpoint_policies.s3_endpoint(OWN, has_internet=False)))
    world.session_client("s3", pod_session(world)).put_object(Bucket="data", Key="y", Body=b"y")


def test_the_s3_endpoint_of_another_account_refuses_a_pod_although_its_role_may_write(world: World) -> None:
    bucket(world)
    permit(world, "s3:PutObject")
    endpoint(world, "s3", iam.to_json(endpoint_policies.s3_endpoint(OTHER, has_internet=True)))
    with pytest.raises(ClientError, match="because no VPC endpoint policy allows the s3:PutObject action"):
        world.session_client("s3", pod_session(world)).put_object(Bucket="data", Key="y", Body=b"y")


def test_a_gateway_endpoint_without_a_route_in_the_subnets_judges_nothing(world: World) -> None:
    bucket(world)
    permit(world, "s3:PutObject")
    endpoint(world, "s3", iam.to_json(endpoint_policies.s3_endpoint(OTHER, has_internet=True)), associated=False)
    world.session_client("s3", pod_session(world)).put_object(Bucket="data", Key="y", Body=b"y")


def test_an_endpoint_that_allows_reads_grants_nothing(world: World) -> None:
    bucket(world)
    permit(world, "s3:PutObject")
    endpoint(world, "s3", iam.to_json(endpoint_policies.s3_endpoint(OTHER, has_internet=True)))
    with pytest.raises(ClientError, match="because no identity-based policy allows the s3:GetObject action"):
        world.session_client("s3", pod_session(world)).get_object(Bucket="data", Key="x")


def test_an_explicit_deny_of_the_endpoint_wins(world: World) -> None:
    bucket(world)
    permit(world, "s3:GetObject")
    deny_reads = {"Effect": "Deny", "Principal": "*", "Action": "s3:GetObject", "Resource": "*"}
    endpoint(world, "s3", policy(allow(Principal="*", Action="*", Resource="*"), deny_reads))
    with pytest.raises(ClientError, match="with an explicit deny in a VPC endpoint policy"):
        world.session_client("s3", pod_session(world)).get_object(Bucket="data", Key="x")


def test_an_instance_is_judged_by_the_endpoint_of_its_subnet(world: World) -> None:
    bucket(world)
    world.client("iam").put_role_policy(
        RoleName="node", PolicyName="work", PolicyDocument=policy(allow(Action="s3:GetObject", Resource="*"))
    )
    endpoint(world, "s3", policy(allow(Principal="*", Action="s3:PutObject", Resource="*")))
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
        world.session_client("s3", keys).get_object(Bucket="data", Key="x")


def test_the_administrators_requests_pass_no_endpoint(world: World) -> None:
    s3 = bucket(world)
    endpoint(world, "s3", policy(allow(Principal="*", Action="s3:PutObject", Resource="*")))
    assert s3.get_object(Bucket="data", Key="x")["Body"].read() == b"x"
