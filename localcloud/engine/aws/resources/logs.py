"""CloudWatch log groups."""

from typing import Any

from localcloud.engine.aws.resource import Args, AutoName, Aws, Prop, Resource, State, register
from localcloud.engine.aws.resources.names import choose_physical_name
from localcloud.engine.aws.resources.requests import ignore_gone, report_partial_creation, to_request, to_state
from localcloud.engine.aws.resources.tags import TAGS, apply_tag_changes, build_tag_state, get_program_tags


@register
class LogGroup(Resource):
    token = "aws:cloudwatch/logGroup:LogGroup"
    title = "CloudWatch Logs Log Group"
    auto_name = AutoName(max_length=512)
    CREATE_NAMES = {"kmsKeyId": "kmsKeyId"}
    props = {
        "name": Prop(replace=True),
        "namePrefix": Prop(replace=True, write_only=True),
        "retentionInDays": Prop(default=0),
        "kmsKeyId": Prop(default=""),
        "skipDestroy": Prop(write_only=True, default=False),
        **TAGS,
    }

    def create(self, aws: Aws, args: Args) -> str:
        logs, name, tags = aws.client("logs"), choose_physical_name(args), get_program_tags(args)
        logs.create_log_group(logGroupName=name, **({"tags": tags} if tags else {}), **to_request(args, self.CREATE_NAMES))
        with report_partial_creation(name):
            if args.get("retentionInDays"):
                logs.put_retention_policy(logGroupName=name, retentionInDays=args["retentionInDays"])
        return name

    def read(self, aws: Aws, id: str, recorded: State) -> State | None:
        group = self._find(aws, id)
        if group is None:
            return None
        arn = str(group["arn"]).removesuffix(":*")
        return {
            **to_state(group, self.CREATE_NAMES),
            **build_tag_state(aws.client("logs").list_tags_for_resource(resourceArn=arn).get("tags")),
            "name": id,
            "arn": arn,
            "retentionInDays": group.get("retentionInDays", 0),
        }

    def update(self, aws: Aws, id: str, old: State, new: Args, changed: frozenset[str]) -> None:
        logs = aws.client("logs")
        if "retentionInDays" in changed:
            if new.get("retentionInDays"):
                logs.put_retention_policy(logGroupName=id, retentionInDays=new["retentionInDays"])
            else:
                logs.delete_retention_policy(logGroupName=id)
        if "kmsKeyId" in changed:
            if new.get("kmsKeyId"):
                logs.associate_kms_key(logGroupName=id, kmsKeyId=new["kmsKeyId"])
            else:
                logs.disassociate_kms_key(logGroupName=id)
        if "tags" in changed:
            apply_tag_changes(
                old,
                new,
                remove=lambda keys: logs.untag_resource(resourceArn=old["arn"], tagKeys=keys),
                write=lambda tags: logs.tag_resource(resourceArn=old["arn"], tags=tags),
            )

    def delete(self, aws: Aws, id: str, state: State) -> None:
        if state.get("skipDestroy"):
            return
        with ignore_gone("ResourceNotFoundException"):
            aws.client("logs").delete_log_group(logGroupName=id)

    @staticmethod
    def _find(aws: Aws, id: str) -> dict[str, Any] | None:
        pages = aws.client("logs").get_paginator("describe_log_groups").paginate(logGroupNamePrefix=id)
        return next((group for page in pages for group in page["logGroups"] if group["logGroupName"] == id), None)
