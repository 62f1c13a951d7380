"""IAM."""

from tests.engine.cases.case import Case, names, value
from tests.engine.world import World, allow, trust

READ_ONLY = "arn:aws:iam::aws:policy/ReadOnlyAccess"
BOUNDARY = "arn:aws:iam::aws:policy/PowerUserAccess"


def _owner(world: World) -> str:
    return world.role("owner", "ec2.amazonaws.com").rpartition("/")[2]


def _policy_on_role(world: World) -> dict[str, str]:
    return {"role": _owner(world), "name": "inline", "policy": allow("s3:GetObject")}


def _attachment(world: World) -> dict[str, str]:
    return {"role": _owner(world), "policyArn": READ_ONLY}


CASES = [
    Case(
        "aws:iam/role:Role",
        make_inputs=lambda world: {
            "name": world.name("nodes"),
            "path": "/team/",
            "assumeRolePolicy": trust("ec2.amazonaws.com"),
            "description": "nodes of the cluster",
            "maxSessionDuration": 7200,
            "permissionsBoundary": BOUNDARY,
            "forceDetachPolicies": True,
            "tags": {"gpumpi:stack": "local", "Name": "nodes"},
        },
        needed=names("assumeRolePolicy"),
        instead=(lambda world: {"namePrefix": world.name("nodes-"), "assumeRolePolicy": trust("ec2.amazonaws.com")},),
        updates={
            "assumeRolePolicy": value(trust("ec2.amazonaws.com", "ssm.amazonaws.com")),
            "description": value("other"),
            "maxSessionDuration": value(3600),
            "permissionsBoundary": value(READ_ONLY),
            "forceDetachPolicies": value(False),
            "tags": value({"gpumpi:stack": "other"}),
        },
        removals=names("description", "maxSessionDuration", "permissionsBoundary", "forceDetachPolicies", "tags"),
        replaces={"name": value("others"), "path": value("/")},
        drift=lambda world, id: world.client("iam").tag_role(RoleName=id, Tags=[{"Key": "Name", "Value": "theirs"}]),
        drifted=names("tags"),
    ),
    Case(
        "aws:iam/rolePolicy:RolePolicy",
        make_inputs=_policy_on_role,
        needed=names("role", "policy"),
        instead=(lambda world: {"namePrefix": "p-", **{name: _policy_on_role(world)[name] for name in ("role", "policy")}},),
        updates={"policy": value(allow("s3:PutObject"))},
        replaces={"name": value("other"), "role": lambda world: world.role("second", "ec2.amazonaws.com").rpartition("/")[2]},
        drift=lambda world, id: world.client("iam").put_role_policy(
            RoleName=_owner(world), PolicyName="inline", PolicyDocument=allow("s3:*")
        ),
        drifted=names("policy"),
    ),
    Case(
        "aws:iam/rolePolicyAttachment:RolePolicyAttachment",
        make_inputs=_attachment,
        needed=names("role", "policyArn"),
        replaces={"policyArn": value(BOUNDARY), "role": value("second")},
    ),
    Case(
        "aws:iam/instanceProfile:InstanceProfile",
        make_inputs=lambda world: {
            "name": world.name("hosts"),
            "path": "/team/",
            "role": _owner(world),
            "tags": {"gpumpi:stack": "local", "Name": "hosts"},
        },
        needed=names(),
        instead=(lambda world: {"namePrefix": world.name("hosts-"), "role": _owner(world)},),
        updates={
            "role": lambda world: world.role("second", "ec2.amazonaws.com").rpartition("/")[2],
            "tags": value({"gpumpi:stack": "other"}),
        },
        removals=names("role", "tags"),
        replaces={"name": value("others"), "path": value("/")},
        drift=lambda world, id: world.client("iam").tag_instance_profile(
            InstanceProfileName=id, Tags=[{"Key": "Name", "Value": "theirs"}]
        ),
        drifted=names("tags"),
    ),
]
