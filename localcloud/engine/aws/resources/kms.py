"""KMS keys and their aliases."""

from typing import Any

from localcloud.engine.aws.resource import Args, AutoName, Aws, Prop, Resource, State, register
from localcloud.engine.aws.resources.names import choose_physical_name
from localcloud.engine.aws.resources.progress import Seen, await_status
from localcloud.engine.aws.resources.requests import ignore_gone, report_partial_creation, to_request, to_state
from localcloud.engine.aws.resources.tags import TAGS, apply_tag_changes, build_tag_state, from_pairs, get_program_tags, to_pairs

LONGEST_WINDOW = 30
ABSENT = "NotFoundException"


@register
class Key(Resource):
    token = "aws:kms/key:Key"
    title = "KMS Key"
    CREATE_NAMES = {
        "description": "Description",
        "keyUsage": "KeyUsage",
        "customerMasterKeySpec": "KeySpec",
        "multiRegion": "MultiRegion",
        "policy": "Policy",
        "bypassPolicyLockoutSafetyCheck": "BypassPolicyLockoutSafetyCheck",
    }
    OUTPUTS = {
        "arn": "Arn",
        "keyId": "KeyId",
        "description": "Description",
        "keyUsage": "KeyUsage",
        "customerMasterKeySpec": "KeySpec",
        "multiRegion": "MultiRegion",
        "isEnabled": "Enabled",
    }
    props = {
        "description": Prop(),
        "policy": Prop(json=True),
        "bypassPolicyLockoutSafetyCheck": Prop(write_only=True, default=False),
        "deletionWindowInDays": Prop(write_only=True),
        "enableKeyRotation": Prop(default=False),
        "rotationPeriodInDays": Prop(),
        "isEnabled": Prop(default=True),
        "keyUsage": Prop(replace=True, default="ENCRYPT_DECRYPT"),
        "customerMasterKeySpec": Prop(replace=True, default="SYMMETRIC_DEFAULT"),
        "multiRegion": Prop(replace=True),
        **TAGS,
    }

    def create(self, aws: Aws, args: Args) -> str:
        response = aws.client("kms").create_key(
            Tags=_build_tag_pairs(get_program_tags(args)), **to_request(args, self.CREATE_NAMES)
        )
        id = str(response["KeyMetadata"]["KeyId"])
        with report_partial_creation(id):
            if args.get("enableKeyRotation"):
                self._set_rotation(aws, id, args)
            if args.get("isEnabled") is False:
                aws.client("kms").disable_key(KeyId=id)
        return id

    def read(self, aws: Aws, id: str, recorded: State) -> State | None:
        kms = aws.client("kms")
        metadata = self._describe(aws, id)
        if metadata is None or metadata["KeyState"] == "PendingDeletion":
            return None
        rotation = kms.get_key_rotation_status(KeyId=id)
        tags = [tag for page in kms.get_paginator("list_resource_tags").paginate(KeyId=id) for tag in page["Tags"]]
        return {
            **to_state(metadata, self.OUTPUTS),
            **to_state(rotation, {"enableKeyRotation": "KeyRotationEnabled", "rotationPeriodInDays": "RotationPeriodInDays"}),
            **build_tag_state(from_pairs(tags, "TagKey", "TagValue")),
            "policy": kms.get_key_policy(KeyId=id, PolicyName="default")["Policy"],
        }

    def update(self, aws: Aws, id: str, old: State, new: Args, changed: frozenset[str]) -> None:
        """Update the key. KMS rejects changes to disabled keys, so enable the key first and disable it last."""
        kms = aws.client("kms")
        enabled = new.get("isEnabled", True)
        if "isEnabled" in changed and enabled:
            kms.enable_key(KeyId=id)
        if changed & {"enableKeyRotation", "rotationPeriodInDays"}:
            self._set_rotation(aws, id, new)
        if "description" in changed:
            kms.update_key_description(KeyId=id, Description=new.get("description") or "")
        if "policy" in changed:
            lockout = to_request(new, {"bypassPolicyLockoutSafetyCheck": "BypassPolicyLockoutSafetyCheck"})
            kms.put_key_policy(KeyId=id, PolicyName="default", Policy=new["policy"], **lockout)
        if "isEnabled" in changed and not enabled:
            kms.disable_key(KeyId=id)
        if "tags" in changed:
            apply_tag_changes(
                old,
                new,
                remove=lambda keys: kms.untag_resource(KeyId=id, TagKeys=keys),
                write=lambda tags: kms.tag_resource(KeyId=id, Tags=_build_tag_pairs(tags)),
            )

    def delete(self, aws: Aws, id: str, state: State) -> None:
        window = state.get("deletionWindowInDays") or LONGEST_WINDOW
        metadata = self._describe(aws, id)
        if metadata is None or metadata["KeyState"] == "PendingDeletion":
            return
        with ignore_gone(ABSENT):
            aws.client("kms").schedule_key_deletion(KeyId=id, PendingWindowInDays=window)
            pending = ("Enabled", "Disabled")
            await_status(
                aws, f"KMS Key ({id}) delete", lambda: self._read_status(aws, id), target="PendingDeletion", pending=pending
            )

    @staticmethod
    def _set_rotation(aws: Aws, id: str, args: Args) -> None:
        if args.get("enableKeyRotation"):
            aws.client("kms").enable_key_rotation(KeyId=id, **to_request(args, {"rotationPeriodInDays": "RotationPeriodInDays"}))
        else:
            aws.client("kms").disable_key_rotation(KeyId=id)

    @staticmethod
    def _describe(aws: Aws, id: str) -> dict[str, Any] | None:
        kms = aws.client("kms")
        try:
            metadata: dict[str, Any] = kms.describe_key(KeyId=id)["KeyMetadata"]
        except kms.exceptions.NotFoundException:
            return None
        return metadata

    def _read_status(self, aws: Aws, id: str) -> Seen | None:
        metadata = self._describe(aws, id)
        return Seen(metadata["KeyState"]) if metadata else None


@register
class Alias(Resource):
    token = "aws:kms/alias:Alias"
    title = "KMS Alias"
    auto_name = AutoName(max_length=256, prefix="alias/")
    props = {
        "name": Prop(replace=True),
        "namePrefix": Prop(replace=True, write_only=True),
        "targetKeyId": Prop(),
    }

    def create(self, aws: Aws, args: Args) -> str:
        name = choose_physical_name(args)
        aws.client("kms").create_alias(AliasName=name, TargetKeyId=args["targetKeyId"])
        return name

    def read(self, aws: Aws, id: str, recorded: State) -> State | None:
        pages = aws.client("kms").get_paginator("list_aliases").paginate()
        alias = next((candidate for page in pages for candidate in page["Aliases"] if candidate["AliasName"] == id), None)
        if alias is None:
            return None
        target = str(alias["TargetKeyId"])
        arn = f"{alias['AliasArn'].rsplit(':', 1)[0]}:key/{target}"
        same = recorded.get("targetKeyId") in (target, arn)
        return {
            "name": id,
            "arn": alias["AliasArn"],
            "targetKeyId": recorded["targetKeyId"] if same else target,
            "targetKeyArn": arn,
        }

    def update(self, aws: Aws, id: str, old: State, new: Args, changed: frozenset[str]) -> None:
        if "targetKeyId" in changed:
            aws.client("kms").update_alias(AliasName=id, TargetKeyId=new["targetKeyId"])

    def delete(self, aws: Aws, id: str, state: State) -> None:
        with ignore_gone(ABSENT):
            aws.client("kms").delete_alias(AliasName=id)


def _build_tag_pairs(tags: dict[str, str]) -> list[dict[str, str]]:
    return to_pairs(tags, "TagKey", "TagValue")
