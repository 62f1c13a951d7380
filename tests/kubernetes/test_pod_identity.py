"""Pods get the credentials of the IAM role associated with their service account, from a real webhook and agent."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3.session
import pytest

from localcloud.aws.account import ACCOUNT
from testkit.eks_clusters import REGION, Account, Running
from testkit.node_groups import build_pod, build_pod_path, create_node_group, create_pods, is_ready, wait_for_output
from testkit.waiting import wait_while

pytestmark = pytest.mark.xdist_group("kubernetes")

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"

ASK = """
import json, os, urllib.error, urllib.request
answer = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
if "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE" in os.environ:
    token = open(os.environ["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"]).read()
    request = urllib.request.Request(os.environ["AWS_CONTAINER_CREDENTIALS_FULL_URI"], headers={"Authorization": TOKEN})
    try:
        answer["credentials"] = json.load(urllib.request.urlopen(request, timeout=10))
    except urllib.error.HTTPError as error:
        answer["refused"] = [error.code, error.read().decode().strip()]
    except OSError as error:
        answer["unreachable"] = str(error)
print(json.dumps(answer))
"""
OWN_TOKEN = ASK.replace("TOKEN}", "token}")
API_TOKEN = ASK.replace("TOKEN}", "open('/var/run/secrets/kubernetes.io/serviceaccount/token').read()}")


@pytest.fixture(scope="module")
def identity_cluster(account: Account) -> Iterator[Running]:
    """A cluster with a node and the Pod Identity agent add-on."""
    cluster = account.create("known")
    account.eks.create_addon(clusterName=cluster.name, addonName="eks-pod-identity-agent")
    with create_node_group(cluster, "system", 1, "m5.large") as group:
        assert group.describe()["status"] == "ACTIVE", group.describe()["health"]
        yield cluster
    cluster.delete()


@contextmanager
def create_service_account(cluster: Running, name: str, role: str | None) -> Iterator[None]:
    """Create a service account, and a Pod Identity association if a role is given."""
    cluster.api.create(ACCOUNTS, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
    eks, association = cluster.account.eks, None
    if role:
        response = eks.create_pod_identity_association(
            clusterName=cluster.name, namespace="default", serviceAccount=name, roleArn=role
        )
        association = response["association"]["associationId"]
    try:
        yield
    finally:
        associations = eks.list_pod_identity_associations(clusterName=cluster.name)["associations"]
        if association in [entry["associationId"] for entry in associations]:
            eks.delete_pod_identity_association(clusterName=cluster.name, associationId=association)
        cluster.api.delete(f"{ACCOUNTS}/{name}")


def run_in_pod(cluster: Running, name: str, program: str = OWN_TOKEN, **spec: Any) -> Any:
    """Run `program` in a pod with this service account; return its output. OWN_TOKEN prints the pod's credentials."""
    with create_pods(cluster, build_pod(f"{name}-pod", program, serviceAccountName=name, **spec)):
        return wait_for_output(cluster, f"{name}-pod")


def test_a_pod_gets_the_role_credentials_of_its_service_account(identity_cluster: Running) -> None:
    with create_service_account(identity_cluster, "trainer", identity_cluster.account.world.pod_role):
        output = run_in_pod(identity_cluster, "trainer")
    keys = output["credentials"]
    session = boto3.session.Session(keys["AccessKeyId"], keys["SecretAccessKey"], keys["Token"], region_name=REGION)
    sts = session.client("sts", endpoint_url=identity_cluster.cloud.environment()["AWS_ENDPOINT_URL"])
    assert sts.get_caller_identity()["Arn"].startswith(f"arn:aws:sts::{ACCOUNT}:assumed-role/pod/eks-known-trainer-po-")
    assert output["AWS_REGION"] == REGION
    assert output["AWS_ENDPOINT_URL"] == "http://169.254.100.1:4566"


def test_an_aws_sdk_in_a_pod_needs_no_further_configuration(identity_cluster: Running) -> None:
    """The program uses plain HTTP because the job image has no SDK. AWS_ENDPOINT_URL points to the local AWS."""
    program = """
import json, os, urllib.error, urllib.request
try:
    urllib.request.urlopen(os.environ["AWS_ENDPOINT_URL"] + "/some-bucket", timeout=60)
except urllib.error.HTTPError as error:
    print(json.dumps([error.code, "AccessDenied" in error.read().decode()]))
"""
    with create_service_account(identity_cluster, "caller", identity_cluster.account.world.pod_role):
        assert run_in_pod(identity_cluster, "caller", program) == [403, True], "S3 answers an unsigned request"


def test_a_pod_without_a_pod_identity_association_is_not_mutated(identity_cluster: Running) -> None:
    with create_service_account(identity_cluster, "nobody", None):
        assert run_in_pod(identity_cluster, "nobody") == {}


def test_a_service_account_token_for_the_api_server_gets_no_aws_credentials(identity_cluster: Running) -> None:
    with create_service_account(identity_cluster, "wrong", identity_cluster.account.world.pod_role):
        output = run_in_pod(identity_cluster, "wrong", API_TOKEN)
    code, message = output["refused"]
    assert code == 400 and message.startswith("(InvalidTokenException)")


UNTIL_REFUSED = """
import json, os, pathlib, time, urllib.error, urllib.request
token = open(os.environ["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"]).read()
request = urllib.request.Request(os.environ["AWS_CONTAINER_CREDENTIALS_FULL_URI"], headers={"Authorization": token})
try:
    while True:
        urllib.request.urlopen(request, timeout=10)
        pathlib.Path("/tmp/served").touch()
        time.sleep(0.1)
except urllib.error.HTTPError as error:
    print(json.dumps([error.code, error.read().decode()]))
"""


def test_deleting_the_association_revokes_access_of_running_pods(identity_cluster: Running) -> None:
    eks = identity_cluster.account.eks
    probe = {"exec": {"command": ["test", "-f", "/tmp/served"]}, "periodSeconds": 1}
    pod = build_pod("late-pod", UNTIL_REFUSED, serviceAccountName="late", container={"readinessProbe": probe})
    with (
        create_service_account(identity_cluster, "late", identity_cluster.account.world.pod_role),
        create_pods(identity_cluster, pod),
    ):
        wait_while(lambda: is_ready(identity_cluster.api.get(build_pod_path("late-pod"))), lambda ready: not ready)
        (association,) = eks.list_pod_identity_associations(clusterName=identity_cluster.name, serviceAccount="late")[
            "associations"
        ]
        eks.delete_pod_identity_association(clusterName=identity_cluster.name, associationId=association["associationId"])
        code, message = wait_for_output(identity_cluster, "late-pod")
    assert code == 404 and message.startswith("(ResourceNotFoundException)")


def test_a_role_that_trusts_only_another_namespace_is_refused(identity_cluster: Running) -> None:
    policy = {
        "Effect": "Allow",
        "Principal": {"Service": "pods.eks.amazonaws.com"},
        "Action": ["sts:AssumeRole", "sts:TagSession"],
        "Condition": {"StringEquals": {"aws:RequestTag/kubernetes-namespace": "other"}},
    }
    iam = identity_cluster.account.client("iam")
    document = json.dumps({"Version": "2012-10-17", "Statement": [policy]})
    role = iam.create_role(RoleName="elsewhere", AssumeRolePolicyDocument=document)["Role"]["Arn"]
    try:
        with create_service_account(identity_cluster, "narrow", role):
            code, message = run_in_pod(identity_cluster, "narrow")["refused"]
    finally:
        iam.delete_role(RoleName="elsewhere")
    assert code == 400 and message.startswith("(AccessDeniedException)")


def test_no_pod_identity_agent_responds_without_the_add_on(identity_cluster: Running) -> None:
    """This must be the last test in this module, because the other tests need the agent."""
    identity_cluster.account.eks.delete_addon(clusterName=identity_cluster.name, addonName="eks-pod-identity-agent")
    missing = identity_cluster.account.eks.exceptions.ResourceNotFoundException

    def is_agent_reachable() -> bool:
        try:
            identity_cluster.account.eks.describe_addon(clusterName=identity_cluster.name, addonName="eks-pod-identity-agent")
        except missing:
            return False
        return True

    wait_while(is_agent_reachable, bool)
    with create_service_account(identity_cluster, "alone", identity_cluster.account.world.pod_role):
        assert "refused" in run_in_pod(identity_cluster, "alone")["unreachable"]
