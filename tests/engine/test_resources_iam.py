"""IAM roles and their policies: cases beyond those tested for every resource type."""

import pytest

from localcloud.engine.aws.lifecycle import OperationFailed
from localcloud.engine.aws.resource import RESOURCES
from tests.engine.life import Life
from tests.engine.world import World, allow, new_world, one_account, trust  # noqa: F401

ROLE = RESOURCES["aws:iam/role:Role"]
POLICY = RESOURCES["aws:iam/rolePolicy:RolePolicy"]
ATTACHMENT = RESOURCES["aws:iam/rolePolicyAttachment:RolePolicyAttachment"]


def role_with_policies(world: World, **inputs: bool) -> Life:
    role = Life(ROLE, world.aws, {"assumeRolePolicy": trust("ec2.amazonaws.com"), **inputs}, world.name("nodes"))
    iam = world.client("iam")
    iam.attach_role_policy(RoleName=role.id, PolicyArn="arn:aws:iam::aws:policy/ReadOnlyAccess")
    iam.put_role_policy(RoleName=role.id, PolicyName="theirs", PolicyDocument=allow("s3:GetObject"))
    return role


def test_force_detach_policies_deletes_a_role_with_foreign_policies(world: World) -> None:
    role = role_with_policies(world, forceDetachPolicies=True)
    role.delete()
    assert role.refresh() is None


def test_a_role_with_foreign_policies_is_not_deleted(world: World) -> None:
    role = role_with_policies(world)
    with pytest.raises(OperationFailed, match=r"deleting IAM Role .* DeleteConflict"):
        role.delete()
    assert role.refresh() is not None


def test_a_role_is_removed_from_its_instance_profiles_before_deletion(world: World) -> None:
    role = Life(ROLE, world.aws, {"assumeRolePolicy": trust("ec2.amazonaws.com")}, world.name("nodes"))
    iam, profile = world.client("iam"), world.name("profile")
    iam.create_instance_profile(InstanceProfileName=profile)
    iam.add_role_to_instance_profile(InstanceProfileName=profile, RoleName=role.id)
    role.delete()
    assert iam.get_instance_profile(InstanceProfileName=profile)["InstanceProfile"]["Roles"] == []


def test_ids_match_the_official_provider(world: World) -> None:
    role = Life(ROLE, world.aws, {"assumeRolePolicy": trust("ec2.amazonaws.com")}, world.name("nodes"))
    policy = Life(POLICY, world.aws, {"role": role.id, "name": "inline", "policy": allow("s3:GetObject")})
    arn = "arn:aws:iam::aws:policy/ReadOnlyAccess"
    attachment = Life(ATTACHMENT, world.aws, {"role": role.id, "policyArn": arn})
    assert role.id == role.state["name"]
    assert policy.id == f"{role.id}:inline"
    assert attachment.id == f"{role.id}/{arn}"


def test_an_equivalent_policy_is_no_change(world: World) -> None:
    role = Life(ROLE, world.aws, {"assumeRolePolicy": trust("ec2.amazonaws.com")}, world.name("nodes"))
    spaced = trust("ec2.amazonaws.com").replace(",", " ,\n")
    assert role.differences({"assumeRolePolicy": spaced}) == set()


def test_a_detached_policy_and_a_deleted_role_are_gone_for_the_attachment(world: World) -> None:
    role = Life(ROLE, world.aws, {"assumeRolePolicy": trust("ec2.amazonaws.com")}, world.name("nodes"))
    arn = "arn:aws:iam::aws:policy/ReadOnlyAccess"
    attachment = Life(ATTACHMENT, world.aws, {"role": role.id, "policyArn": arn})
    world.client("iam").detach_role_policy(RoleName=role.id, PolicyArn=arn)
    assert attachment.refresh() is None
    role.delete()
    assert attachment.refresh() is None
    attachment.delete()
