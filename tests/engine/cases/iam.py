"""IAM."""

from tests.engine.cases.case import Case, make_constant, property_names
from tests.engine.world import World, make_allow_policy, make_trust_policy

READ_ONLY = "arn:aws:iam::aws:policy/ReadOnlyAccess"
BOUNDARY = "arn:aws:iam::aws:policy/PowerUserAccess"


def _create_owner_role(world: World) -> str:
    return world.ensure_role("owner", "ec2.amazonaws.com").rpartition("/")[2]


def _build_role_policy_inputs(world: World) -> dict[str, str]:
    return {"role": _create_owner_role(world), "name": "inline", "policy": make_allow_policy("s3:GetObject")}


def _build_attachment_inputs(world: World) -> dict[str, str]:
    return {"role": _create_owner_role(world), "policyArn": READ_ONLY}


CASES = [
    Case(
        "aws:iam/role:Role",
        make_inputs=lambda world: {
            "name": world.name("nodes"),
            "path": "/team/",
            "assumeRolePolicy": make_trust_policy("ec2.amazonaws.com"),
            "description": "nodes of the cluster",
            "maxSessionDuration": 7200,
            "permissionsBoundary": BOUNDARY,
            "forceDetachPolicies": True,
            "tags": {"gpumpi:stack": "local", "Name": "nodes"},
        },
        needed=property_names("assumeRolePolicy"),
        instead=(lambda world: {"namePrefix": world.name("nodes-"), "assumeRolePolicy": make_trust_policy("ec2.amazonaws.com")},),
        updates={
            "assumeRolePolicy": make_constant(make_trust_policy("ec2.amazonaws.com", "ssm.amazonaws.com")),
            "description": make_constant("other"),
            "maxSessionDuration": make_constant(3600),
            "permissionsBoundary": make_constant(READ_ONLY),
            "forceDetachPolicies": make_constant(False),
            "tags": make_constant({"gpumpi:stack": "other"}),
        },
        removals=property_names("description", "maxSessionDuration", "permissionsBoundary", "forceDetachPolicies", "tags"),
        replaces={"name": make_constant("others"), "path": make_constant("/")},
        drift=lambda world, id: world.client("iam").tag_role(RoleName=id, Tags=[{"Key": "Name", "Value": "theirs"}]),
        drifted=property_names("tags"),
    ),
    Case(
        "aws:iam/rolePolicy:RolePolicy",
        make_inputs=_build_role_policy_inputs,
        needed=property_names("role", "policy"),
        instead=(
            lambda world: {"namePrefix": "p-", **{name: _build_role_policy_inputs(world)[name] for name in ("role", "policy")}},
        ),
        updates={"policy": make_constant(make_allow_policy("s3:PutObject"))},
        replaces={
            "name": make_constant("other"),
            "role": lambda world: world.ensure_role("second", "ec2.amazonaws.com").rpartition("/")[2],
        },
        drift=lambda world, id: world.client("iam").put_role_policy(
            RoleName=_create_owner_role(world), PolicyName="inline", PolicyDocument=make_allow_policy("s3:*")
        ),
        drifted=property_names("policy"),
    ),
    Case(
        "aws:iam/rolePolicyAttachment:RolePolicyAttachment",
        make_inputs=_build_attachment_inputs,
        needed=property_names("role", "policyArn"),
        replaces={"policyArn": make_constant(BOUNDARY), "role": make_constant("second")},
    ),
    Case(
        "aws:iam/instanceProfile:InstanceProfile",
        make_inputs=lambda world: {
            "name": world.name("hosts"),
            "path": "/team/",
            "role": _create_owner_role(world),
            "tags": {"gpumpi:stack": "local", "Name": "hosts"},
        },
        needed=property_names(),
        instead=(lambda world: {"namePrefix": world.name("hosts-"), "role": _create_owner_role(world)},),
        updates={
            "role": lambda world: world.ensure_role("second", "ec2.amazonaws.com").rpartition("/")[2],
            "tags": make_constant({"gpumpi:stack": "other"}),
        },
        removals=property_names("role", "tags"),
        replaces={"name": make_constant("others"), "path": make_constant("/")},
        drift=lambda world, id: world.client("iam").tag_instance_profile(
            InstanceProfileName=id, Tags=[{"Key": "Name", "Value": "theirs"}]
        ),
        drifted=property_names("tags"),
    ),
]
