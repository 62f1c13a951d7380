"""Access entries, Pod Identity associations, and tags of every EKS resource."""

import pytest
from botocore.exceptions import ClientError

from localcloud.aws.account import ACCOUNT, ADMINISTRATOR_ACCESS, USER_ARN
from testkit.aws_clients import REGION, Client
from testkit.eks_world import World, make_trust_policy

POLICIES = "arn:aws:eks::aws:cluster-access-policy/"


@pytest.fixture
def world(aws: Client) -> World:
    world = World(aws)
    world.cluster()
    return world


# --- access entries


@pytest.mark.parametrize(
    ("kind", "username", "groups"),
    [
        ("STANDARD", f"arn:aws:sts::{ACCOUNT}:assumed-role/admin/{{{{SessionName}}}}", []),
        ("EC2_LINUX", "system:node:{{EC2PrivateDNSName}}", ["system:nodes"]),
        ("FARGATE_LINUX", "system:node:{{EC2PrivateDNSName}}", ["system:node-proxier", "system:nodes"]),
    ],
)
def test_an_access_entry_maps_a_principal_to_a_kubernetes_user(world: World, kind: str, username: str, groups: list[str]) -> None:
    created = world.eks.create_access_entry(clusterName="demo", principalArn=world.admin_role, type=kind)["accessEntry"]
    assert (created["type"], created["username"], created["kubernetesGroups"]) == (kind, username, groups)
    prefix = f"arn:aws:eks:{REGION}:{ACCOUNT}:access-entry/demo/role/{ACCOUNT}/admin/"
    assert created["accessEntryArn"].startswith(prefix)


def test_default_user_names_are_user_arns_and_role_arns_without_path(world: World) -> None:
    user = world.client("iam").create_user(UserName="ada")["User"]["Arn"]
    role = world.client("iam").create_role(
        Path="/teams/mpi/", RoleName="ops", AssumeRolePolicyDocument=make_trust_policy("ec2.amazonaws.com")
    )
    for arn, username in (
        (user, user),
        (role["Role"]["Arn"], f"arn:aws:sts::{ACCOUNT}:assumed-role/ops/{{{{SessionName}}}}"),
    ):
        entry = world.eks.create_access_entry(clusterName="demo", principalArn=arn)["accessEntry"]
        assert entry["username"] == username


def test_a_principal_of_another_account_is_accepted_without_validation(world: World) -> None:
    arn = "arn:aws:iam::999999999999:role/partner"
    assert world.eks.create_access_entry(clusterName="demo", principalArn=arn)["accessEntry"]["principalArn"] == arn


def test_an_access_entry_can_be_updated_listed_and_deleted(world: World) -> None:
    named = {"clusterName": "demo", "principalArn": world.admin_role}
    world.eks.create_access_entry(**named, kubernetesGroups=["viewers"], tags={"team": "mpi"})
    world.eks.update_access_entry(**named, kubernetesGroups=["editors"], username="ops")
    entry = world.eks.describe_access_entry(**named)["accessEntry"]
    assert (entry["kubernetesGroups"], entry["username"], entry["tags"]) == (["editors"], "ops", {"team": "mpi"})
    assert world.eks.list_access_entries(clusterName="demo")["accessEntries"] == sorted([USER_ARN, world.admin_role])
    world.eks.delete_access_entry(**named)
    assert world.eks.list_access_entries(clusterName="demo")["accessEntries"] == [USER_ARN]


def test_access_policies_can_be_associated_rescoped_and_disassociated(world: World) -> None:
    named = {"clusterName": "demo", "principalArn": world.admin_role}
    world.eks.create_access_entry(**named)
    policy = POLICIES + "AmazonEKSEditPolicy"
    world.eks.associate_access_policy(**named, policyArn=policy, accessScope={"type": "namespace", "namespaces": ["jobs"]})
    world.eks.associate_access_policy(**named, policyArn=policy, accessScope={"type": "cluster"})
    [association] = world.eks.list_associated_access_policies(**named)["associatedAccessPolicies"]
    assert (association["policyArn"], association["accessScope"]["type"]) == (policy, "cluster")
    assert world.eks.list_access_entries(clusterName="demo", associatedPolicyArn=policy)["accessEntries"] == [world.admin_role]
    world.eks.disassociate_access_policy(**named, policyArn=policy)
    assert world.eks.list_associated_access_policies(**named)["associatedAccessPolicies"] == []


def test_available_access_policies_are_listed(world: World) -> None:
    arns = {policy["arn"] for policy in world.eks.list_access_policies()["accessPolicies"]}
    assert {POLICIES + name for name in ("AmazonEKSClusterAdminPolicy", "AmazonEKSAdminPolicy", "AmazonEKSViewPolicy")} <= arns


def test_a_cluster_created_in_a_role_session_is_owned_by_the_role(aws: Client) -> None:
    world = World(aws)
    account = f'{{"Effect":"Allow","Principal":{{"AWS":"arn:aws:iam::{ACCOUNT}:root"}},"Action":"sts:AssumeRole"}}'
    role = world.create_role("deployer", f'{{"Version":"2012-10-17","Statement":[{account}]}}')
    world.client("iam").attach_role_policy(RoleName="deployer", PolicyArn=ADMINISTRATOR_ACCESS)
    key = aws("sts").assume_role(RoleArn=role, RoleSessionName="ada")["Credentials"]
    session = aws(
        "eks",
        aws_access_key_id=key["AccessKeyId"],
        aws_secret_access_key=key["SecretAccessKey"],
        aws_session_token=key["SessionToken"],
    )
    session.create_cluster(**world.build_cluster_request())
    assert world.eks.list_access_entries(clusterName="demo")["accessEntries"] == [role]


# --- Pod Identity


def test_a_pod_identity_association_can_be_created_found_updated_and_deleted(world: World) -> None:
    other = world.create_role("other", make_trust_policy("pods.eks.amazonaws.com", "sts:AssumeRole", "sts:TagSession"))
    association = world.eks.create_pod_identity_association(
        clusterName="demo", namespace="jobs", serviceAccount="mpi", roleArn=world.pod_role, tags={"team": "mpi"}
    )["association"]
    assert association["associationId"].startswith("a-")
    assert association["associationArn"].endswith(f":podidentityassociation/demo/{association['associationId']}")
    listed = world.eks.list_pod_identity_associations(clusterName="demo", namespace="jobs", serviceAccount="mpi")["associations"]
    assert [item["associationId"] for item in listed] == [association["associationId"]]
    assert world.eks.list_pod_identity_associations(clusterName="demo", namespace="elsewhere")["associations"] == []
    named = {"clusterName": "demo", "associationId": association["associationId"]}
    world.eks.update_pod_identity_association(**named, roleArn=other, disableSessionTags=True)
    after = world.eks.describe_pod_identity_association(**named)["association"]
    assert (after["roleArn"], after["disableSessionTags"], after["tags"]) == (other, True, {"team": "mpi"})
    world.eks.delete_pod_identity_association(**named)
    with pytest.raises(ClientError, match="ResourceNotFoundException"):
        world.eks.describe_pod_identity_association(**named)


def test_an_association_with_a_target_role_gets_an_external_id(world: World) -> None:
    target = "arn:aws:iam::999999999999:role/data"
    named = {"clusterName": "demo", "namespace": "jobs", "serviceAccount": "mpi", "roleArn": world.pod_role}
    association = world.eks.create_pod_identity_association(**named, targetRoleArn=target)["association"]
    assert (association["targetRoleArn"], bool(association["externalId"])) == (target, True)


# --- tags


def test_every_eks_resource_can_be_tagged(world: World) -> None:
    eks = world.eks
    association = {"namespace": "jobs", "serviceAccount": "mpi", "roleArn": world.pod_role}
    arns = [
        world.describe()["arn"],
        world.node_group()["nodegroupArn"],
        eks.create_addon(clusterName="demo", addonName="vpc-cni")["addon"]["addonArn"],
        eks.create_access_entry(clusterName="demo", principalArn=world.admin_role)["accessEntry"]["accessEntryArn"],
        eks.create_pod_identity_association(clusterName="demo", **association)["association"]["associationArn"],
    ]
    for arn in arns:
        eks.tag_resource(resourceArn=arn, tags={"a": "1", "b": "2"})
        eks.tag_resource(resourceArn=arn, tags={"b": "3"})
        eks.untag_resource(resourceArn=arn, tagKeys=["a"])
        assert eks.list_tags_for_resource(resourceArn=arn)["tags"] == {"b": "3"}
    assert world.describe()["tags"] == {"b": "3"}
    assert world.describe_node_group()["tags"] == {"b": "3"}
