"""EKS Pod Identity: exchange of a pod's token for role credentials, the agent and the webhook."""

import base64
import json
import socket
import ssl
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from localcloud.aws import gateway
from localcloud.aws.account import ACCOUNT
from localcloud.kubernetes.pki import Authority
from localcloud.kubernetes.pod_identity import servers
from localcloud.kubernetes.pod_identity.credentials import CredentialsRefused, Pod, assume_pod_role
from testkit.aws_clients import REGION, Client
from testkit.eks_world import World, make_trust_policy

POD = Pod("jobs", "trainer", "train-0", "8d3e")


@pytest.fixture
def world(aws: Client) -> World:
    world = World(aws)
    world.cluster()
    return world


def associate_role(world: World, role: str | None = None, **settings: Any) -> str:
    response = world.eks.create_pod_identity_association(
        clusterName="demo", namespace="jobs", serviceAccount="trainer", roleArn=role or world.pod_role, **settings
    )
    return str(response["association"]["associationId"])


def request_credentials(pod: Pod = POD) -> dict[str, str]:
    with gateway.LOCK:
        return assume_pod_role(ACCOUNT, REGION, "demo", pod)


def test_a_pod_gets_the_role_of_its_service_account(world: World) -> None:
    associate_role(world)
    keys = request_credentials()
    who = world.create_session_client("sts", keys).get_caller_identity()["Arn"]
    assert who.startswith(f"arn:aws:sts::{ACCOUNT}:assumed-role/pod/eks-demo-train-0-")
    assert keys["AccountId"] == ACCOUNT
    until = datetime.strptime(keys["Expiration"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    assert timedelta(hours=5) < until - datetime.now(UTC) <= timedelta(hours=6)


@pytest.mark.parametrize("pod", [Pod("jobs", "other", "x", "1"), Pod("other", "trainer", "x", "1")])
def test_pods_of_another_service_account_get_no_credentials(world: World, pod: Pod) -> None:
    associate_role(world)
    with pytest.raises(CredentialsRefused, match="ResourceNotFoundException") as caught:
        request_credentials(pod)
    assert caught.value.status == 404


def test_deleting_the_association_revokes_access(world: World) -> None:
    name = associate_role(world)
    request_credentials()
    world.eks.delete_pod_identity_association(clusterName="demo", associationId=name)
    with pytest.raises(CredentialsRefused, match="ResourceNotFoundException"):
        request_credentials()


def create_conditional_role(world: World, namespace: str) -> str:
    policy = json.loads(make_trust_policy("pods.eks.amazonaws.com", "sts:AssumeRole", "sts:TagSession"))
    policy["Statement"][0]["Condition"] = {"StringEquals": {"aws:RequestTag/kubernetes-namespace": namespace}}
    return world.create_role(f"only-{namespace}", json.dumps(policy))


def test_a_trust_policy_can_require_the_namespace_of_the_pod(world: World) -> None:
    name = associate_role(world, create_conditional_role(world, "jobs"))
    request_credentials()
    theirs = create_conditional_role(world, "theirs")
    world.eks.update_pod_identity_association(clusterName="demo", associationId=name, roleArn=theirs)
    with pytest.raises(CredentialsRefused, match="AccessDeniedException"):
        request_credentials()


def test_a_session_tag_condition_is_not_met_if_session_tags_are_disabled(world: World) -> None:
    associate_role(world, create_conditional_role(world, "jobs"), disableSessionTags=True)
    with pytest.raises(CredentialsRefused, match="AccessDeniedException"):
        request_credentials()


def test_policies_can_use_the_pod_name_from_session_tags(world: World) -> None:
    """Like the key bucket's policy, this policy lets a pod write only objects whose key starts with its namespace and
    name.
    """
    s3 = world.client("s3")
    s3.create_bucket(Bucket="keys", CreateBucketConfiguration={"LocationConstraint": REGION})
    own = "arn:aws:s3:::keys/${aws:PrincipalTag/kubernetes-namespace}/${aws:PrincipalTag/kubernetes-pod-name}/*"
    statement = {"Effect": "Allow", "Action": "s3:PutObject", "Resource": own}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    world.client("iam").put_role_policy(RoleName="pod", PolicyName="own", PolicyDocument=policy)
    associate_role(world)
    pods = world.create_session_client("s3", request_credentials())
    pods.put_object(Bucket="keys", Key="jobs/train-0/id.pub", Body=b"key")
    with pytest.raises(pods.exceptions.ClientError, match="AccessDenied"):
        pods.put_object(Bucket="keys", Key="jobs/train-1/id.pub", Body=b"key")


def test_only_the_associated_role_can_assume_the_target_role(world: World) -> None:
    first = {"AWS": world.pod_role}
    policy = {"Effect": "Allow", "Principal": first, "Action": ["sts:AssumeRole", "sts:TagSession"]}
    target = world.create_role("target", json.dumps({"Version": "2012-10-17", "Statement": [policy]}))
    name = associate_role(world, targetRoleArn=target)
    assert ":assumed-role/target/" in world.create_session_client("sts", request_credentials()).get_caller_identity()["Arn"]
    world.eks.update_pod_identity_association(clusterName="demo", associationId=name, targetRoleArn=world.admin_role)
    with pytest.raises(CredentialsRefused, match="AccessDeniedException"):
        request_credentials()


# --- with SDKs and API servers


@contextmanager
def run_agent(answer: dict[str, str] | CredentialsRefused) -> Iterator[str]:
    def assume(token: str) -> dict[str, str]:
        if isinstance(answer, CredentialsRefused):
            raise answer
        return answer | {"Token": token}

    listener = socket.create_server(("127.0.0.1", 0))
    stop = servers.serve_agent(listener, assume)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        stop()


def test_an_sdk_finds_credentials_through_the_environment_of_the_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from botocore.credentials import ContainerProvider

    token = tmp_path / "token"
    token.write_text("pod-token")
    until = (datetime.now(UTC) + timedelta(hours=6)).strftime("%Y-%m-%dT%H:%M:%SZ")
    answer = {"AccessKeyId": "ASIA1", "SecretAccessKey": "s", "AccountId": ACCOUNT, "Expiration": until}
    with run_agent(answer) as url:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{url}/v1/credentials")
        monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(token))
        frozen = ContainerProvider().load().get_frozen_credentials()
    assert (frozen.access_key, frozen.secret_key, frozen.token) == ("ASIA1", "s", "pod-token")


def test_the_pod_identity_agent_returns_the_reason_of_a_refusal() -> None:
    with (
        run_agent(CredentialsRefused(404, "ResourceNotFoundException", "no association")) as url,
        pytest.raises(HTTPError) as caught,
    ):
        urlopen(f"{url}/v1/credentials", timeout=10)
    with closing(caught.value) as error:
        assert (error.code, error.read()) == (404, b"(ResourceNotFoundException): no association\n")


def test_a_stopped_pod_identity_agent_does_not_listen() -> None:
    with run_agent({}) as url:
        pass
    with pytest.raises(OSError, match="refused"):
        urlopen(f"{url}/v1/credentials", timeout=10)


def test_the_webhook_serves_the_certificate_of_the_cluster(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate = authority.issue("webhook", addresses=("127.0.0.1",))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.file, certificate.key)
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    stop = servers.serve_webhook(
        listener, context, lambda pod: [{"op": "add", "path": "/x", "value": pod["metadata"]["namespace"]}]
    )
    silent = socket.create_connection(("127.0.0.1", port))
    try:
        body = {"apiVersion": "admission.k8s.io/v1", "request": {"uid": "u", "namespace": "jobs", "object": {"spec": {}}}}
        request = Request(f"https://127.0.0.1:{port}/mutate", json.dumps(body).encode())
        client_context = ssl.create_default_context(cafile=authority.certificate.file)
        with urlopen(request, timeout=10, context=client_context) as answer:
            response = json.load(answer)["response"]
    finally:
        silent.close()
        stop()
    assert (response["uid"], response["allowed"], response["patchType"]) == ("u", True, "JSONPatch")
    assert json.loads(base64.b64decode(response["patch"])) == [{"op": "add", "path": "/x", "value": "jobs"}]
