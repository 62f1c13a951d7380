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

    def enter(self, **settings: Any) -> None:
        self.cluster.account.eks.create_access_entry(clusterName=self.cluster.name, principalArn=self.arn, **settings)

    def leave(self) -> None:
        self.cluster.account.eks.delete_access_entry(clusterName=self.cluster.name, principalArn=self.arn)

    def associate(self, policy: str, scope: dict[str, Any] = CLUSTER_SCOPE) -> None:
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
        environment = self.environment | {"KUBECONFIG": str(self.cluster.kubeconfig(self.folder / "config"))}
        return subprocess.run(["kubectl", *arguments], env=environment, check=False, capture_output=True, text=True, timeout=60)

    def may(self, verb: str, resource: str, *more: str) -> bool:
        """Return whether `kubectl auth can-i` answers yes. The API server caches webhook answers for two seconds."""
        return self.kubectl("auth", "can-i", verb, resource, *more).stdout.strip() == "yes"


@contextmanager
def session_of(cluster: Running, name: str, folder: Path) -> Iterator[Person]:
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
def ada(cluster: Running, tmp_path: Path) -> Iterator[Person]:
    with session_of(cluster, "ada", tmp_path) as person:
        yield person


def test_the_clusters_creator_may_do_everything(cluster: Running, tmp_path: Path) -> None:
    kubeconfig = cluster.kubeconfig(tmp_path / "config")
    assert cluster.kubectl(kubeconfig, "auth", "can-i", "*", "*", "--all-namespaces").stdout.strip() == "yes"
    made = cluster.kubectl(kubeconfig, "create", "clusterrole", "everything", "--verb=*", "--resource=*")
    assert made.returncode == 0, made.stderr
    assert cluster.kubectl(kubeconfig, "delete", "clusterrole", "everything").returncode == 0


def test_a_principal_without_access_entry_has_no_access(ada: Person) -> None:
    for path in ("/api", "/version", "/healthz", "/api/v1/namespaces"):
        done = ada.kubectl("get", "--raw", path)
        assert done.returncode != 0 and "Unauthorized" in done.stderr, (path, done)


def test_the_view_policy_lists_pods_and_reads_no_secret(ada: Person) -> None:
    ada.enter()
    ada.associate("AmazonEKSViewPolicy")
    assert ada.kubectl("get", "pods", "--all-namespaces").returncode == 0
    refused = ada.kubectl("get", "secrets", "--all-namespaces")
    assert refused.returncode != 0
    assert f'User "arn:aws:sts::{ACCOUNT}:assumed-role/ada/ada" cannot list resource "secrets"' in refused.stderr
    created = ada.kubectl("create", "configmap", "mine")
    assert created.returncode != 0 and "forbidden" in created.stderr, created


def test_a_namespaced_policy_applies_only_in_its_namespace(ada: Person) -> None:
    ada.enter()
    ada.associate("AmazonEKSEditPolicy", {"type": "namespace", "namespaces": ["kube-public"]})
    assert ada.may("create", "pods", "--namespace=kube-public")
    assert not ada.may("create", "pods", "--namespace=default")
    assert not ada.may("list", "pods", "--all-namespaces")


def test_an_entrys_groups_are_bound_by_ordinary_rbac(ada: Person) -> None:
    ada.enter(kubernetesGroups=["readers"])
    assert not ada.may("list", "nodes")
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "readers"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "readers"}],
    }
    ada.cluster.api.apply(binding)
    try:
        assert wait_while(lambda: ada.may("list", "nodes"), lambda may: not may)
    finally:
        ada.cluster.api.delete("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/readers")


def test_deleting_the_access_entry_ends_access(ada: Person) -> None:
    ada.enter()
    ada.associate("AmazonEKSClusterAdminPolicy")
    assert ada.may("delete", "nodes")
    ada.leave()
    refused = wait_while(lambda: ada.kubectl("get", "namespaces"), lambda done: done.returncode == 0)
    assert "Unauthorized" in refused.stderr


def test_a_role_session_has_user_name_groups_and_extra_fields(ada: Person) -> None:
    ada.enter(username="ops:{{SessionName}}", kubernetesGroups=["ops"])
    user = json.loads(ada.kubectl("auth", "whoami", "--output=json").stdout)["status"]["userInfo"]
    assert user["username"] == "ops:ada"
    assert set(user["groups"]) == {"ops", "system:authenticated"}
    assert user["extra"]["arn"] == [f"arn:aws:sts::{ACCOUNT}:assumed-role/ada/ada"]


# --- tokens as such


def presigned(cluster: Running, name: str, moment: datetime | None = None) -> str:
    """Return an engineer's token for the named cluster, signed by botocore instead of the AWS CLI."""
    sts = cluster.cloud.clients(REGION)("sts")
    sts.meta.events.register(
        "before-sign.sts.GetCallerIdentity", lambda request, **_: request.headers.add_header("x-k8s-aws-id", name)
    )
    with mock.patch("botocore.auth.get_current_datetime", lambda: (moment or datetime.now(UTC)).replace(tzinfo=None)):
        url = sts.generate_presigned_url("get_caller_identity", ExpiresIn=60, HttpMethod="GET")
    return "k8s-aws-v1." + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")


def get(cluster: Running, token: str) -> subprocess.CompletedProcess[str]:
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


def test_a_token_made_by_botocore_is_accepted(cluster: Running) -> None:
    done = get(cluster, presigned(cluster, cluster.name))
    assert done.returncode == 0, done.stderr


def refusals(cluster: Running) -> dict[str, str]:
    good = presigned(cluster, cluster.name)
    url = base64.urlsafe_b64decode(good.removeprefix("k8s-aws-v1.") + "==").decode()
    changed = url.replace("X-Amz-Expires=60", "X-Amz-Expires=600")
    assert changed != url
    return {
        "for another cluster": presigned(cluster, "another"),
        "expired": presigned(cluster, cluster.name, datetime.now(UTC) - timedelta(minutes=16)),
        "changed": "k8s-aws-v1." + base64.urlsafe_b64encode(changed.encode()).decode().rstrip("="),
        "made up": "k8s-aws-v1.bm90aGluZw",
    }


@pytest.mark.parametrize("kind", ["for another cluster", "expired", "changed", "made up"])
def test_an_invalid_token_is_refused(cluster: Running, kind: str) -> None:
    done = get(cluster, refusals(cluster)[kind])
    assert done.returncode != 0 and "Unauthorized" in done.stderr, done


def test_a_token_of_fourteen_minutes_ago_is_still_accepted(cluster: Running) -> None:
    token = presigned(cluster, cluster.name, datetime.now(UTC) - timedelta(minutes=14))
    assert get(cluster, token).returncode == 0
