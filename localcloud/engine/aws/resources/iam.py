"""IAM roles and their policies."""

import json
from typing import Any

from localcloud.engine.aws.resource import Args, AutoName, Aws, Prop, Resource, State, register
from localcloud.engine.aws.resources.names import choose_physical_name
from localcloud.engine.aws.resources.requests import ignore_gone, report_partial_creation, to_request, to_state
from localcloud.engine.aws.resources.tags import TAGS, apply_tag_changes, build_tag_state, from_pairs, get_program_tags, to_pairs

ABSENT = "NoSuchEntity"


@register
class Role(Resource):
    token = "aws:iam/role:Role"
    title = "IAM Role"
    auto_name = AutoName(max_length=64)
    CREATE_NAMES = {
        "path": "Path",
        "assumeRolePolicy": "AssumeRolePolicyDocument",
        "description": "Description",
        "maxSessionDuration": "MaxSessionDuration",
        "permissionsBoundary": "PermissionsBoundary",
    }
    OUTPUTS = {
        "arn": "Arn",
        "name": "RoleName",
        "uniqueId": "RoleId",
        "path": "Path",
        "description": "Description",
        "maxSessionDuration": "MaxSessionDuration",
    }
    props = {
        "name": Prop(replace=True),
        "namePrefix": Prop(replace=True, write_only=True),
        "path": Prop(replace=True, default="/"),
        "assumeRolePolicy": Prop(json=True),
        "description": Prop(default=""),
        "maxSessionDuration": Prop(default=3600),
        "permissionsBoundary": Prop(default=""),
        "forceDetachPolicies": Prop(write_only=True, default=False),
        **TAGS,
    }

    def create(self, aws: Aws, args: Args) -> str:
        name = choose_physical_name(args)
        aws.client("iam").create_role(RoleName=name, Tags=to_pairs(get_program_tags(args)), **to_request(args, self.CREATE_NAMES))
        return name

    def read(self, aws: Aws, id: str, recorded: State) -> State | None:
        iam = aws.client("iam")
        try:
            role = iam.get_role(RoleName=id)["Role"]
        except iam.exceptions.NoSuchEntityException:
            return None
        # The official provider reads these lists for deprecated properties.
        iam.list_role_policies(RoleName=id)
        iam.list_attached_role_policies(RoleName=id)
        boundary = (role.get("PermissionsBoundary") or {}).get("PermissionsBoundaryArn")
        return {
            **to_state(role, self.OUTPUTS),
            **({"permissionsBoundary": boundary} if boundary else {}),
            **build_tag_state(from_pairs(role.get("Tags"))),
            "assumeRolePolicy": json.dumps(role["AssumeRolePolicyDocument"]),
            "createDate": f"{role['CreateDate']:%Y-%m-%dT%H:%M:%SZ}",
        }

    def update(self, aws: Aws, id: str, old: State, new: Args, changed: frozenset[str]) -> None:
        iam = aws.client("iam")
        if "assumeRolePolicy" in changed:
            iam.update_assume_role_policy(RoleName=id, PolicyDocument=new["assumeRolePolicy"])
        if changed & {"description", "maxSessionDuration"}:
            duration = new.get("maxSessionDuration") or 3600
            iam.update_role(RoleName=id, Description=new.get("description") or "", MaxSessionDuration=duration)
        if "permissionsBoundary" in changed:
            if new.get("permissionsBoundary"):
                iam.put_role_permissions_boundary(RoleName=id, PermissionsBoundary=new["permissionsBoundary"])
            else:
                iam.delete_role_permissions_boundary(RoleName=id)
        if "tags" in changed:
            apply_tag_changes(
                old,
                new,
                remove=lambda keys: iam.untag_role(RoleName=id, TagKeys=keys),
                write=lambda tags: iam.tag_role(RoleName=id, Tags=to_pairs(tags)),
            )

    def delete(self, aws: Aws, id: str, state: State) -> None:
        iam = aws.client("iam")
        with ignore_gone(ABSENT):
            for profile in _list_all(iam, "list_instance_profiles_for_role", "InstanceProfiles", RoleName=id):
                with ignore_gone(ABSENT):
                    iam.remove_role_from_instance_profile(InstanceProfileName=profile["InstanceProfileName"], RoleName=id)
            if state.get("forceDetachPolicies"):
                self._remove_policies(iam, id)
            iam.delete_role(RoleName=id)

    @staticmethod
    def _remove_policies(iam: Any, id: str) -> None:
        for policy in _list_all(iam, "list_attached_role_policies", "AttachedPolicies", RoleName=id):
            with ignore_gone(ABSENT):
                iam.detach_role_policy(RoleName=id, PolicyArn=policy["PolicyArn"])
        for name in _list_all(iam, "list_role_policies", "PolicyNames", RoleName=id):
            with ignore_gone(ABSENT):
                iam.delete_role_policy(RoleName=id, PolicyName=name)


@register
class RolePolicy(Resource):
    token = "aws:iam/rolePolicy:RolePolicy"
    title = "IAM Role Policy"
    auto_name = AutoName()
    props = {
        "name": Prop(replace=True),
        "namePrefix": Prop(replace=True, write_only=True),
        "role": Prop(replace=True),
        "policy": Prop(json=True),
    }

    def create(self, aws: Aws, args: Args) -> str:
        role, name = str(args["role"]), choose_physical_name(args)
        aws.client("iam").put_role_policy(RoleName=role, PolicyName=name, PolicyDocument=args["policy"])
        return f"{role}:{name}"

    def read(self, aws: Aws, id: str, recorded: State) -> State | None:
        iam = aws.client("iam")
        role, _, name = id.partition(":")
        try:
            response = iam.get_role_policy(RoleName=role, PolicyName=name)
        except iam.exceptions.NoSuchEntityException:
            return None
        return {"name": name, "role": role, "policy": json.dumps(response["PolicyDocument"])}

    def update(self, aws: Aws, id: str, old: State, new: Args, changed: frozenset[str]) -> None:
        role, _, name = id.partition(":")
        aws.client("iam").put_role_policy(RoleName=role, PolicyName=name, PolicyDocument=new["policy"])

    def delete(self, aws: Aws, id: str, state: State) -> None:
        role, _, name = id.partition(":")
        with ignore_gone(ABSENT):
            aws.client("iam").delete_role_policy(RoleName=role, PolicyName=name)


@register
class RolePolicyAttachment(Resource):
    token = "aws:iam/rolePolicyAttachment:RolePolicyAttachment"
    title = "IAM Role Policy Attachment"
    delete_before_replace = True
    props = {"role": Prop(replace=True), "policyArn": Prop(replace=True)}

    def create(self, aws: Aws, args: Args) -> str:
        role, policy = str(args["role"]), str(args["policyArn"])
        aws.client("iam").attach_role_policy(RoleName=role, PolicyArn=policy)
        return f"{role}/{policy}"

    def read(self, aws: Aws, id: str, recorded: State) -> State | None:
        role, _, policy = id.partition("/")
        try:
            attached = _list_all(aws.client("iam"), "list_attached_role_policies", "AttachedPolicies", RoleName=role)
        except aws.client("iam").exceptions.NoSuchEntityException:
            return None
        return {"role": role, "policyArn": policy} if any(attachment["PolicyArn"] == policy for attachment in attached) else None

    def delete(self, aws: Aws, id: str, state: State) -> None:
        role, _, policy = id.partition("/")
        with ignore_gone(ABSENT):
            aws.client("iam").detach_role_policy(RoleName=role, PolicyArn=policy)


@register
class InstanceProfile(Resource):
    token = "aws:iam/instanceProfile:InstanceProfile"
    title = "IAM Instance Profile"
    auto_name = AutoName(max_length=128)
    OUTPUTS = {"arn": "Arn", "name": "InstanceProfileName", "path": "Path", "uniqueId": "InstanceProfileId"}
    props = {
        "name": Prop(replace=True),
        "namePrefix": Prop(replace=True, write_only=True),
        "path": Prop(replace=True, default="/"),
        "role": Prop(default=""),
        **TAGS,
    }

    def create(self, aws: Aws, args: Args) -> str:
        iam, name = aws.client("iam"), choose_physical_name(args)
        tags = to_pairs(get_program_tags(args))
        iam.create_instance_profile(InstanceProfileName=name, Path=args.get("path") or "/", Tags=tags)
        if args.get("role"):
            with report_partial_creation(name):
                iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=str(args["role"]))
        return name

    def read(self, aws: Aws, id: str, recorded: State) -> State | None:
        iam = aws.client("iam")
        try:
            profile = iam.get_instance_profile(InstanceProfileName=id)["InstanceProfile"]
        except iam.exceptions.NoSuchEntityException:
            return None
        roles = [role["RoleName"] for role in profile["Roles"]]
        return {
            **to_state(profile, self.OUTPUTS),
            **({"role": roles[0]} if roles else {}),
            **build_tag_state(from_pairs(profile.get("Tags"))),
            "createDate": f"{profile['CreateDate']:%Y-%m-%dT%H:%M:%SZ}",
        }

    def update(self, aws: Aws, id: str, old: State, new: Args, changed: frozenset[str]) -> None:
        iam = aws.client("iam")
        if "role" in changed:
            self._remove_role(aws, id, old)
            if new.get("role"):
                iam.add_role_to_instance_profile(InstanceProfileName=id, RoleName=str(new["role"]))
        if "tags" in changed:
            apply_tag_changes(
                old,
                new,
                remove=lambda keys: iam.untag_instance_profile(InstanceProfileName=id, TagKeys=keys),
                write=lambda tags: iam.tag_instance_profile(InstanceProfileName=id, Tags=to_pairs(tags)),
            )

    def delete(self, aws: Aws, id: str, state: State) -> None:
        self._remove_role(aws, id, state)
        with ignore_gone(ABSENT):
            aws.client("iam").delete_instance_profile(InstanceProfileName=id)

    @staticmethod
    def _remove_role(aws: Aws, id: str, state: State) -> None:
        if state.get("role"):
            with ignore_gone(ABSENT):
                aws.client("iam").remove_role_from_instance_profile(InstanceProfileName=id, RoleName=state["role"])


def _list_all(iam: Any, operation: str, member: str, **parameters: str) -> list[Any]:
    return [item for page in iam.get_paginator(operation).paginate(**parameters) for item in page[member]]
