"""Webhooks of a cluster's API server: they identify the signer of a token and apply EKS access policies."""

import base64
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from localcloud.aws import gateway, listening
from localcloud.aws.account import ACCOUNT, USER_ARN
from localcloud.kubernetes.access import review
from localcloud.kubernetes.access.token import InvalidToken
from testkit.aws_clients import REGION, Client
from testkit.eks_world import World, make_trust_policy

POLICIES = "arn:aws:eks::aws:cluster-access-policy/"
ENDPOINT = f"https://sts.{REGION}.amazonaws.com"
"""STS endpoint of the local AWS in this process, for botocore."""


@pytest.fixture
def world(aws: Client) -> Iterator[World]:
    world = World(aws)
    world.cluster(accessConfig={"authenticationMode": "API"})
    listening.add_address(f"sts.{REGION}.amazonaws.com", 80)
    yield world
    listening.remove_address(f"sts.{REGION}.amazonaws.com", 80)


def build_token(sts: Any, cluster: str = "demo") -> str:
    """Build a token as the AWS CLI does:
    https://github.com/aws/aws-cli/blob/develop/awscli/customizations/eks/get_token.py
    """

    def add_header(request: Any, **_: Any) -> None:
        request.headers["x-k8s-aws-id"] = cluster

    sts.meta.events.register("before-sign.sts.GetCallerIdentity", add_header)
    url = sts.generate_presigned_url("get_caller_identity", ExpiresIn=60, HttpMethod="GET")
    sts.meta.events.unregister("before-sign.sts.GetCallerIdentity", add_header)  # other tests use the same client
    return "k8s-aws-v1." + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")


def authenticate(text: str, cluster: str = "demo", later: timedelta = timedelta()) -> dict[str, Any]:
    with gateway.LOCK:
        return review.authenticate(review._get_cluster(REGION, cluster), text, datetime.now(UTC) + later)


def open_session(world: World, arn: str, name: str = "ada@example.org") -> Any:
    keys = world.client("sts").assume_role(RoleArn=arn, RoleSessionName=name)["Credentials"]
    return world.client(
        "sts",
        aws_access_key_id=keys["AccessKeyId"],
        aws_secret_access_key=keys["SecretAccessKey"],
        aws_session_token=keys["SessionToken"],
    )


def create_assumable_role(world: World, name: str = "viewers", path: str = "/") -> str:
    anybody = make_trust_policy("ec2.amazonaws.com").replace('{"Service": "ec2.amazonaws.com"}', f'{{"AWS": "{ACCOUNT}"}}')
    role = world.client("iam").create_role(RoleName=name, Path=path, AssumeRolePolicyDocument=anybody)
    return str(role["Role"]["Arn"])


def test_the_creator_of_a_cluster_is_its_administrator(world: World) -> None:
    user = authenticate(build_token(world.client("sts")))
    assert (user["username"], user["groups"]) == (USER_ARN, [])
    allowed = review.authorize(
        review._get_cluster(REGION, "demo"), {"extra": user["extra"], **build_access_review("delete", "nodes")}
    )
    assert allowed == "AmazonEKSClusterAdminPolicy"


def build_access_review(verb: str, resource: str) -> dict[str, Any]:
    return {"resourceAttributes": {"verb": verb, "resource": resource, "namespace": "jobs"}}


def test_a_role_session_gets_user_name_groups_and_policies_of_its_access_entry(world: World) -> None:
    arn = create_assumable_role(world, path="/teams/mpi/")
    world.eks.create_access_entry(clusterName="demo", principalArn=arn, kubernetesGroups=["viewers"])
    world.eks.associate_access_policy(
        clusterName="demo", principalArn=arn, policyArn=f"{POLICIES}AmazonEKSViewPolicy", accessScope={"type": "cluster"}
    )
    user = authenticate(build_token(open_session(world, arn)))
    assert user["username"] == f"arn:aws:sts::{ACCOUNT}:assumed-role/viewers/ada-example.org"
    assert user["groups"] == ["viewers"]
    cluster = review._get_cluster(REGION, "demo")
    assert review.authorize(cluster, {"extra": user["extra"], **build_access_review("list", "pods")}) == "AmazonEKSViewPolicy"
    assert review.authorize(cluster, {"extra": user["extra"], **build_access_review("list", "secrets")}) is None


def test_a_valid_identity_without_an_access_entry_is_unauthorized(world: World) -> None:
    arn = create_assumable_role(world)
    with pytest.raises(InvalidToken, match=f"{arn} has no access entry in cluster demo"):
        authenticate(build_token(open_session(world, arn)))


def test_deleting_the_access_entry_revokes_access(world: World) -> None:
    arn = create_assumable_role(world)
    world.eks.create_access_entry(clusterName="demo", principalArn=arn)
    text = build_token(open_session(world, arn))
    extra = authenticate(text)["extra"]
    world.eks.delete_access_entry(clusterName="demo", principalArn=arn)
    with pytest.raises(InvalidToken, match="has no access entry"):
        authenticate(text)
    assert review.authorize(review._get_cluster(REGION, "demo"), {"extra": extra, **build_access_review("list", "pods")}) is None


def test_a_token_for_another_cluster_is_refused(world: World) -> None:
    world.cluster("other", accessConfig={"authenticationMode": "API"})
    with pytest.raises(InvalidToken, match="the token was signed for a cluster other than other"):
        authenticate(build_token(world.client("sts"), "demo"), "other")


def test_an_expired_token_is_refused(world: World) -> None:
    text = build_token(world.client("sts"))
    authenticate(text, later=timedelta(minutes=14))
    with pytest.raises(InvalidToken, match="the token has expired"):
        authenticate(text, later=timedelta(minutes=16))


def test_a_token_signed_with_a_wrong_secret_key_is_refused(world: World) -> None:
    with pytest.raises(InvalidToken, match="the signature does not match"):
        authenticate(build_token(world.client("sts", aws_secret_access_key="guessed")))


def test_a_token_signed_with_an_unknown_key_is_refused(world: World) -> None:
    with pytest.raises(InvalidToken, match="the security token included in the request is invalid"):
        authenticate(build_token(world.client("sts", aws_access_key_id="AKIAUNKNOWNUNKNOWN00")))


def test_a_token_of_a_role_session_without_the_session_token_is_refused(world: World) -> None:
    keys = world.client("sts").assume_role(RoleArn=create_assumable_role(world), RoleSessionName="ada")["Credentials"]
    half = world.client("sts", aws_access_key_id=keys["AccessKeyId"], aws_secret_access_key=keys["SecretAccessKey"])
    with pytest.raises(InvalidToken, match="the security token included in the request is invalid"):
        authenticate(build_token(half))


def test_sts_refuses_a_deactivated_access_key(world: World) -> None:
    iam = world.client("iam")
    iam.create_user(UserName="ada")
    access_key = iam.create_access_key(UserName="ada")["AccessKey"]
    arn = iam.get_user(UserName="ada")["User"]["Arn"]
    world.eks.create_access_entry(clusterName="demo", principalArn=arn)
    sts = world.client("sts", aws_access_key_id=access_key["AccessKeyId"], aws_secret_access_key=access_key["SecretAccessKey"])
    text = build_token(sts)
    assert authenticate(text)["username"] == arn
    iam.update_access_key(UserName="ada", AccessKeyId=access_key["AccessKeyId"], Status="Inactive")
    with pytest.raises(InvalidToken, match="STS returned 403"):
        authenticate(text)


def test_a_token_for_another_endpoint_is_refused(world: World) -> None:
    listening.remove_address(f"sts.{REGION}.amazonaws.com", 80)
    with pytest.raises(InvalidToken, match="is not this local cloud's endpoint"):
        authenticate(build_token(world.client("sts")))


def test_a_node_authenticates_with_the_identity_of_its_instance(world: World) -> None:
    image = world.ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    launched = world.ec2.run_instances(ImageId=image, MinCount=1, MaxCount=1, InstanceType="m5.large", SubnetId=world.subnets[0])
    instance = launched["Instances"][0]
    arn = create_assumable_role(world, "nodes")
    world.eks.create_access_entry(clusterName="demo", principalArn=arn, type="EC2_LINUX")
    user = authenticate(build_token(open_session(world, arn, instance["InstanceId"])))
    assert (user["username"], user["groups"]) == (f"system:node:{instance['PrivateDnsName']}", ["system:nodes"])
    with pytest.raises(InvalidToken, match="is not the session of an EC2 instance"):
        authenticate(build_token(open_session(world, arn, "session")))


def test_only_the_creator_has_access_in_config_map_authentication_mode(world: World) -> None:
    world.cluster("old", accessConfig={"authenticationMode": "CONFIG_MAP"})
    assert authenticate(build_token(world.client("sts"), "old"), "old")["groups"] == ["system:masters"]
    with pytest.raises(InvalidToken, match="did not create the cluster"):
        authenticate(build_token(open_session(world, create_assumable_role(world)), "old"), "old")


def test_the_webhook_response_follows_the_kubernetes_schema(world: World) -> None:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "garbage"}}
    refused = review.review_token(body, REGION, "demo")
    assert refused["status"] == {"authenticated": False, "error": "the token does not begin with k8s-aws-v1."}
    body["spec"] = {"token": build_token(world.client("sts"))}
    taken = review.review_token(body, REGION, "demo")
    assert (taken["kind"], taken["status"]["authenticated"]) == ("TokenReview", True)
    request = {
        "apiVersion": "authorization.k8s.io/v1",
        "spec": {"extra": taken["status"]["user"]["extra"], **build_access_review("get", "pods")},
    }
    assert review.review_access(request, REGION, "demo")["status"]["allowed"] is True
