"""Access to a cluster's API with real tokens from `aws eks get-token`, a real API server, and the local AWS."""

import base64
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from localcloud.aws.account import ACCOUNT
from testkit.eks_clusters import REGION, Running
from testkit.waiting import wait_while

pytestmark = pytest.mark.xdist_group("kubernetes")

POLICIES = "arn:aws:eks::aws:cluster-access-policy/"
CLUSTER_SCOPE = {"type": "cluster"}
ANYBODY = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Principal": {"AWS": ACCOUNT}, "Action": "sts:AssumeRole"}],
    }
)


@dataclass(frozen=True)
class Person:
    """A caller with the credentials of a role session."""

    cluster: Running
    arn: str
    keys: dict[str, str]
    folder: Path

    def create_access_entry(self, **settings: Any) -> None:
        self.cluster.account.eks.create_access_entry(clusterName=self.cluster.name, principalArn=self.arn, **settings)

    def delete_access_entry(self) -> None:
        self.cluster.account.eks.delete_access_entry(clusterName=self.cluster.name, principalArn=self.arn)

    def associate_policy(self, policy: str, scope: dict[str, Any] = CLUSTER_SCOPE) -> None:
        self.cluster.account.eks.associate_access_policy(
            clusterName=self.cluster.name, principalArn=self.arn, policyArn=f"{POLICIES}{policy}", accessScope=scope
        )

    @property
    def environment(self) -> dict[str, str]:
        keys = {
            "AWS_ACCESS_KEY_ID": self.keys["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": self.keys["SecretAccessKey"],
            "AWS_SESSION_TOKEN": self.keys["SessionToken"],
        }
        return self.cluster.cloud.process_environment() | keys

    def kubectl(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run kubectl with the kubeconfig from `aws eks update-kubeconfig`. To get a token, kubectl runs
        `aws eks get-token` with this caller's keys.
        """
        environment = self.environment | {"KUBECONFIG": str(self.cluster.write_kubeconfig(self.folder / "config"))}
        return subprocess.run(["kubectl", *arguments], env=environment, check=False, capture_output=True, text=True, timeout=60)

    def is_allowed(self, verb: str, resource: str, *more: str) -> bool:
        """Return whether `kubectl auth can-i` answers yes. The API server caches webhook answers for two seconds."""
        return self.kubectl("auth", "can-i", verb, resource, *more).stdout.strip() == "yes"


@contextmanager
def open_session(cluster: Running, name: str, folder: Path) -> Iterator[Person]:
    iam, sts = cluster.account.client("iam"), cluster.account.client("sts")
    arn = iam.create_role(RoleName=name, AssumeRolePolicyDocument=ANYBODY)["Role"]["Arn"]
    keys = sts.assume_role(RoleArn=arn, RoleSessionName="ada")["Credentials"]
    try:
        yield Person(cluster, arn, keys, folder)
    finally:
        iam.delete_role(RoleName=name)
        missing = cluster.account.eks.exceptions.ResourceNotFoundException
        with suppress(missing):
            cluster.account.eks.delete_access_entry(clusterName=cluster.name, principalArn=arn)


@pytest.fixture
def engineer(cluster: Running, tmp_path: Path) -> Iterator[Person]:
    with open_session(cluster, "ada", tmp_path) as person:
        yield person


def test_the_creator_of_a_cluster_is_its_administrator(cluster: Running, tmp_path: Path) -> None:
    kubeconfig = cluster.write_kubeconfig(tmp_path / "config")
    assert cluster.kubectl(kubeconfig, "auth", "can-i", "*", "*", "--all-namespaces").stdout.strip() == "yes"
    result = cluster.kubectl(kubeconfig, "create", "clusterrole", "everything", "--verb=*", "--resource=*")
    assert result.returncode == 0, result.stderr
    assert cluster.kubectl(kubeconfig, "delete", "clusterrole", "everything").returncode == 0


def test_a_principal_without_access_entry_has_no_access(engineer: Person) -> None:
    for path in ("/api", "/version", "/healthz", "/api/v1/namespaces"):
        done = engineer.kubectl("get", "--raw", path)
        assert done.returncode != 0 and "Unauthorized" in done.stderr, (path, done)


def test_the_view_policy_allows_listing_pods_but_not_reading_secrets(engineer: Person) -> None:
    engineer.create_access_entry()
    engineer.associate_policy("AmazonEKSViewPolicy")
    assert engineer.kubectl("get", "pods", "--all-namespaces").returncode == 0
    refused = engineer.kubectl("get", "secrets", "--all-namespaces")
    assert refused.returncode != 0
    assert f'User "arn:aws:sts::{ACCOUNT}:assumed-role/ada/ada" cannot list resource "secrets"' in refused.stderr
    created = engineer.kubectl("create", "configmap", "mine")
    assert created.returncode != 0 and "forbidden" in created.stderr, created


def test_a_namespaced_access_policy_applies_only_in_its_namespace(engineer: Person) -> None:
    engineer.create_access_entry()
    engineer.associate_policy("AmazonEKSEditPolicy", {"type": "namespace", "namespaces": ["kube-public"]})
    assert engineer.is_allowed("create", "pods", "--namespace=kube-public")
    assert not engineer.is_allowed("create", "pods", "--namespace=default")
    assert not engineer.is_allowed("list", "pods", "--all-namespaces")


def test_groups_of_an_access_entry_can_be_bound_with_rbac(engineer: Person) -> None:
    engineer.create_access_entry(kubernetesGroups=["readers"])
    assert not engineer.is_allowed("list", "nodes")
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "readers"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "readers"}],
    }
    engineer.cluster.api.apply(binding)
    try:
        assert wait_while(lambda: engineer.is_allowed("list", "nodes"), lambda may: not may)
    finally:
        engineer.cluster.api.delete("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/readers")


def test_deleting_the_access_entry_revokes_access(engineer: Person) -> None:
    engineer.create_access_entry()
    engineer.associate_policy("AmazonEKSClusterAdminPolicy")
    assert engineer.is_allowed("delete", "nodes")
    engineer.delete_access_entry()
    refused = wait_while(lambda: engineer.kubectl("get", "namespaces"), lambda done: done.returncode == 0)
    assert "Unauthorized" in refused.stderr


def test_a_role_session_has_the_user_name_groups_and_extra_fields_of_its_access_entry(engineer: Person) -> None:
    engineer.create_access_entry(username="ops:{{SessionName}}", kubernetesGroups=["ops"])
    user = json.loads(engineer.kubectl("auth", "whoami", "--output=json").stdout)["status"]["userInfo"]
    assert user["username"] == "ops:ada"
    assert set(user["groups"]) == {"ops", "system:authenticated"}
    assert user["extra"]["arn"] == [f"arn:aws:sts::{ACCOUNT}:assumed-role/ada/ada"]


# --- tokens as such


def presign_token(cluster: Running, name: str, moment: datetime | None = None) -> str:
    """Return an engineer's token for the named cluster, signed by botocore instead of the AWS CLI."""
    sts = cluster.cloud.clients(REGION)("sts")
    sts.meta.events.register(
        "before-sign.sts.GetCallerIdentity", lambda request, **_: request.headers.add_header("x-k8s-aws-id", name)
    )
    with mock.patch("botocore.auth.get_current_datetime", lambda: (moment or datetime.now(UTC)).replace(tzinfo=None)):
        url = sts.generate_presigned_url("get_caller_identity", ExpiresIn=60, HttpMethod="GET")
    return "k8s-aws-v1." + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")


def get_namespace(cluster: Running, token: str) -> subprocess.CompletedProcess[str]:
    described = cluster.describe()
    authority = base64.b64decode(described["certificateAuthority"]["data"]).decode()
    command = ["kubectl", "get", "--raw", "/api/v1/namespaces/default", f"--server={described['endpoint']}", f"--token={token}"]
    environment = cluster.cloud.process_environment() | {"KUBECONFIG": os.devnull}
    with (cluster.cloud.folder / "authority.crt").open("w") as file:
        file.write(authority)
    try:
        return subprocess.run(
            [*command, f"--certificate-authority={file.name}"],
            env=environment,
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
        )
    finally:
        Path(file.name).unlink()


def test_a_token_generated_with_botocore_is_accepted(cluster: Running) -> None:
    done = get_namespace(cluster, presign_token(cluster, cluster.name))
    assert done.returncode == 0, done.stderr


def make_rejected_tokens(cluster: Running) -> dict[str, str]:
    good = presign_token(cluster, cluster.name)
    url = base64.urlsafe_b64decode(good.removeprefix("k8s-aws-v1.") + "==").decode()
    changed = url.replace("X-Amz-Expires=60", "X-Amz-Expires=600")
    assert changed != url
    return {
        "for another cluster": presign_token(cluster, "another"),
        "expired": presign_token(cluster, cluster.name, datetime.now(UTC) - timedelta(minutes=16)),
        "changed": "k8s-aws-v1." + base64.urlsafe_b64encode(changed.encode()).decode().rstrip("="),
        "made up": "k8s-aws-v1.bm90aGluZw",
    }


@pytest.mark.parametrize("kind", ["for another cluster", "expired", "changed", "made up"])
def test_an_invalid_token_is_refused(cluster: Running, kind: str) -> None:
    done = get_namespace(cluster, make_rejected_tokens(cluster)[kind])
    assert done.returncode != 0 and "Unauthorized" in done.stderr, done


def test_a_token_issued_fourteen_minutes_ago_is_still_accepted(cluster: Running) -> None:
    token = presign_token(cluster, cluster.name, datetime.now(UTC) - timedelta(minutes=14))
    assert get_namespace(cluster, token).returncode == 0
