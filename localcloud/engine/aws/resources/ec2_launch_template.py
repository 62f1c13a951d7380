"""EC2 launch templates. Every change to the template data creates a new version."""

from typing import Any

from localcloud.engine.aws.resource import Args, AutoName, Aws, Prop, Resource, State, register
from localcloud.engine.aws.resources.ec2_launch_template_data import DATA, build_data_request, build_data_state
from localcloud.engine.aws.resources.ec2_tags import TAGS, build_tag_specification, parse_tags, update_tags
from localcloud.engine.aws.resources.names import choose_physical_name
from localcloud.engine.aws.resources.requests import (
    build_ec2_arn,
    find_first,
    generate_client_token,
    ignore_gone,
    to_request,
    to_state,
)

ABSENT = ("InvalidLaunchTemplateId.NotFound", "InvalidLaunchTemplateName.NotFoundException")
VERSIONED = frozenset(DATA) | {"description"}


@register
class LaunchTemplate(Resource):
    token = "aws:ec2/launchTemplate:LaunchTemplate"
    title = "EC2 Launch Template"
    auto_name = AutoName()
    recomputed = frozenset({"latestVersion", "defaultVersion"})
    props = {
        "name": Prop(replace=True),
        "namePrefix": Prop(replace=True, write_only=True),
        "description": Prop(default=""),
        "defaultVersion": Prop(),
        "updateDefaultVersion": Prop(write_only=True, default=False),
        **{name: part.prop for name, part in DATA.items()},
        **TAGS,
    }

    def create(self, aws: Aws, args: Args) -> str:
        response = aws.client("ec2").create_launch_template(
            ClientToken=generate_client_token(),
            LaunchTemplateName=choose_physical_name(args),
            LaunchTemplateData=build_template_data(args),
            TagSpecifications=build_tag_specification("launch-template", args),
            **to_request(args, {"description": "VersionDescription"}),
        )
        return str(response["LaunchTemplate"]["LaunchTemplateId"])

    def read(self, aws: Aws, id: str, recorded: State) -> State | None:
        ec2 = aws.client("ec2")
        template = find_first(lambda: ec2.describe_launch_templates(LaunchTemplateIds=[id])["LaunchTemplates"], *ABSENT)
        if template is None:
            return None
        latest = str(template["LatestVersionNumber"])
        version = ec2.describe_launch_template_versions(LaunchTemplateId=id, Versions=[latest])["LaunchTemplateVersions"][0]
        return {
            **build_data_state(DATA, version["LaunchTemplateData"]),
            **to_state(version, {"description": "VersionDescription"}),
            **parse_tags(template.get("Tags")),
            "name": template["LaunchTemplateName"],
            "arn": build_ec2_arn(aws, f"launch-template/{id}"),
            "defaultVersion": int(template["DefaultVersionNumber"]),
            "latestVersion": int(latest),
        }

    def find_recomputed_outputs(self, changed: frozenset[str]) -> frozenset[str]:
        return self.recomputed if changed & VERSIONED else frozenset()

    def update(self, aws: Aws, id: str, old: State, new: Args, changed: frozenset[str]) -> None:
        ec2 = aws.client("ec2")
        latest = old["latestVersion"]
        if changed & VERSIONED:
            response = ec2.create_launch_template_version(
                ClientToken=generate_client_token(),
                LaunchTemplateId=id,
                LaunchTemplateData=build_template_data(new),
                **to_request(new, {"description": "VersionDescription"}),
            )
            latest = response["LaunchTemplateVersion"]["VersionNumber"]
        default = latest if new.get("updateDefaultVersion") else new.get("defaultVersion")
        if default is not None and (new.get("updateDefaultVersion") or "defaultVersion" in changed):
            ec2.modify_launch_template(LaunchTemplateId=id, DefaultVersion=str(int(default)))
        if "tags" in changed:
            update_tags(aws, id, old, new)

    def delete(self, aws: Aws, id: str, state: State) -> None:
        with ignore_gone(*ABSENT):
            aws.client("ec2").delete_launch_template(LaunchTemplateId=id)


def build_template_data(args: Args) -> dict[str, Any]:
    """Return the template data. User data is always included, because EC2 requires at least one member."""
    return {"UserData": "", **build_data_request(DATA, args)}
