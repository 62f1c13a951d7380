"""IAM roles and their policies: cases beyond those tested for every resource type."""

import pytest

from localcloud.engine.aws.lifecycle import OperationFailed
from localcloud.engine.aws.resource import RESOURCES
from tests.engine.life import Life
from tests.engine.world import World, make_allow_policy, make_trust_policy, module_account, new_world  # noqa: F401

ROLE = RESOURCES["aws:iam/role:Role"]
POLICY = RESOURCES["aws:iam/rolePolicy:RolePolicy"]
ATTACHMENT = RESOURCES["aws:iam/rolePolicyAttachment:RolePolicyAttachment"]


def create_role_with_policies(world: World, **inputs: bool) -> Life:
    role = Life(ROLE, world.aws, {"assumeRolePolicy": make_trust_policy("ec2.amazonaws.com"), **inputs}, world.name("nodes"))
    iam = world.client("iam")
    iam.attach_role_policy(RoleName=role.id, PolicyArn="arn:aws:iam::aws:policy/ReadOnlyAccess")
    iam.put_role_policy(RoleName=role.id, PolicyName="theirs", PolicyDocument=make_allow_policy("s3:GetObject"))
    return role


def test_force_detach_policies_deletes_a_role_with_policies_attached_elsewhere(world: World) -> None:
    role = create_role_with_policies(world, forceDetachPolicies=True)
    role.delete()
    assert role.refresh() is None


def test_a_role_with_policies_attached_elsewhere_is_not_deleted(world: World) -> None:
    role = create_role_with_policies(world)
    with pytest.raises(OperationFailed, match=r"deleting IAM Role .* DeleteConflict"):
        role.delete()
    assert role.refresh() is not None


def test_a_role_is_removed_from_its_instance_profiles_before_deletion(world: World) -> None:
    role = Life(ROLE, world.aws, {"assumeRolePolicy": make_trust_policy("ec2.amazonaws.com")}, world.name("nodes"))
    iam, profile = world.client("iam"), world.name("profile")
    iam.create_instance_profile(InstanceProfileName=profile)
    iam.add_role_to_instance_profile(InstanceProfileName=profile, RoleName=role.id)
    role.delete()
    assert iam.get_instance_profile(InstanceProfileName=profile)["InstanceProfile"]["Roles"] == []


def test_iam_resource_ids_match_the_official_provider(world: World) -> None:
    role = Life(ROLE, world.aws, {"assumeRolePolicy": make_trust_policy("ec2.amazonaws.com")}, world.name("nodes"))
    policy = Life(POLICY, world.aws, {"role": role.id, "name": "inline", "policy": make_allow_policy("s3:GetObject")})
    arn = "arn:aws:iam::aws:policy/ReadOnlyAccess"
    attachment = Life(ATTACHMENT, world.aws, {"role": role.id, "policyArn": arn})
    assert role.id == role.state["name"]
    assert policy.id == f"{role.id}:inline"
    assert attachment.id == f"{role.id}/{arn}"


def test_an_equivalent_policy_document_is_no_change(world: World) -> None:
    role = Life(ROLE, world.aws, {"assumeRolePolicy": make_trust_policy("ec2.amazonaws.com")}, world.name("nodes"))
    spaced = make_trust_policy("ec2.amazonaws.com").replace(",", " ,\n")
    assert role.find_differences({"assumeRolePolicy": spaced}) == set()


def test_an_attachment_is_gone_after_its_policy_is_detached_or_its_role_deleted(world: World) -> None:
    role = Life(ROLE, world.aws, {"assumeRolePolicy": make_trust_policy("ec2.amazonaws.com")}, world.name("nodes"))
    arn = "arn:aws:iam::aws:policy/ReadOnlyAccess"
    attachment = Life(ATTACHMENT, world.aws, {"role": role.id, "policyArn": arn})
    world.client("iam").detach_role_policy(RoleName=role.id, PolicyArn=arn)
    assert attachment.refresh() is None
    role.delete()
    assert attachment.refresh() is None
    attachment.delete()
