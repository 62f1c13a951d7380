"""Launch template operations.

https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateLaunchTemplate.html
"""

from typing import Any

from localcloud.aws.account import USER_ARN
from localcloud.aws.call import Call
from localcloud.aws.ec2 import tagging
from localcloud.aws.ec2.filters import filter_items, select_page
from localcloud.aws.ec2.launch_templates import check_name, find_template, find_version, forget, to_boto_format, to_moto_format
from localcloud.aws.ec2.refusals import build_missing_parameter_error, stop_dry_run
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import operation


@operation("ec2", "CreateLaunchTemplate")
def create_launch_template(call: Call) -> dict[str, Any]:
    params = call.params
    name = params.get("LaunchTemplateName")
    if not name:
        raise build_missing_parameter_error("launchTemplateName")
    if not params.get("LaunchTemplateData"):
        raise build_missing_parameter_error("launchTemplateData")
    check_name(call.backend, name)
    data = to_moto_format(params["LaunchTemplateData"])
    tags = tagging.read_requested_tags(params.get("TagSpecifications"), "launch-template")
    stop_dry_run(call)
    template = call.backend.create_launch_template(name, params.get("VersionDescription"), data, tags)
    return {"LaunchTemplate": _describe_template(template)}


@operation("ec2", "CreateLaunchTemplateVersion")
def create_launch_template_version(call: Call) -> dict[str, Any]:
    template = _find_template(call)
    data = to_moto_format(call.params.get("LaunchTemplateData", {}))
    source = call.params.get("SourceVersion")
    if source is not None:
        data = {**find_version(template, source).data, **data}
    if not data:
        raise build_missing_parameter_error("launchTemplateData")
    stop_dry_run(call)
    version = template.create_version(data, call.params.get("VersionDescription"))
    return {"LaunchTemplateVersion": _describe_version(version)}


@operation("ec2", "DescribeLaunchTemplates")
def describe_launch_templates(call: Call) -> dict[str, Any]:
    params, backend = call.params, call.backend
    ids, names = params.get("LaunchTemplateIds"), params.get("LaunchTemplateNames")
    templates = list(backend.launch_templates.values())
    if ids:
        templates = [find_template(backend, template_id=template_id) for template_id in ids]
    elif names:
        templates = [find_template(backend, name=name) for name in names]
    matching = filter_items(
        templates,
        params.get("Filters"),
        {
            "create-time": lambda template: template.create_time.strftime("%Y-%m-%dT%H:%M:%S.000Z"),
            "launch-template-name": lambda template: template.name,
        },
        lambda template: tagging.read_tags(backend, template.id),
    )
    stop_dry_run(call)
    matching, token = select_page(matching, params)
    return {"LaunchTemplates": [_describe_template(template) for template in matching], **token}


@operation("ec2", "DescribeLaunchTemplateVersions")
def describe_launch_template_versions(call: Call) -> dict[str, Any]:
    params, numbers = call.params, call.params.get("Versions", [])
    if params.get("LaunchTemplateId") or params.get("LaunchTemplateName"):
        template = _find_template(call)
        low, high = int(params.get("MinVersion", 1)), int(params.get("MaxVersion", template.versions[-1].number))
        versions = [find_version(template, number) for number in numbers] if numbers else reversed(template.versions)
        matching = [version for version in versions if low <= version.number <= high]
    else:
        if not numbers or not set(numbers) <= {"$Latest", "$Default"}:
            raise build_missing_parameter_error("launchTemplateId or launchTemplateName")
        matching = [find_version(template, number) for template in call.backend.launch_templates.values() for number in numbers]
    matching = filter_items(
        matching,
        params.get("Filters"),
        {
            "image-id": lambda version: version.data.get("ImageId"),
            "instance-type": lambda version: version.data.get("InstanceType"),
            "is-default-version": lambda version: version.template.is_default(version),
            "iam-instance-profile": lambda version: list(version.data.get("IamInstanceProfile", {}).values()),
        },
        lambda version: {},
    )
    stop_dry_run(call)
    matching, token = select_page(matching, params)
    return {"LaunchTemplateVersions": [_describe_version(version) for version in matching], **token}


@operation("ec2", "ModifyLaunchTemplate")
def modify_launch_template(call: Call) -> dict[str, Any]:
    template = _find_template(call)
    if "DefaultVersion" not in call.params:
        raise build_missing_parameter_error("defaultVersion")
    version = find_version(template, call.params["DefaultVersion"])
    stop_dry_run(call)
    template.default_version_number = version.number
    return {"LaunchTemplate": _describe_template(template)}


@operation("ec2", "DeleteLaunchTemplate")
def delete_launch_template(call: Call) -> dict[str, Any]:
    template = _find_template(call)
    stop_dry_run(call)
    shown = _describe_template(template)
    forget(call.backend, template)
    return {"LaunchTemplate": shown}


@operation("ec2", "DeleteLaunchTemplateVersions")
def delete_launch_template_versions(call: Call) -> dict[str, Any]:
    template, numbers = _find_template(call), call.params.get("Versions", [])
    if not numbers:
        raise build_missing_parameter_error("launchTemplateVersion")
    stop_dry_run(call)
    deleted: list[dict[str, Any]] = []
    not_deleted: list[dict[str, Any]] = []
    for number in numbers:
        names = {"LaunchTemplateId": template.id, "LaunchTemplateName": template.name}
        refusal = _delete_version(template, number)
        if refusal is None:
            deleted.append({**names, "VersionNumber": int(number)})
        else:
            not_deleted.append({**names, "VersionNumber": int(number) if str(number).isdigit() else 0, "ResponseError": refusal})
    return {"SuccessfullyDeletedLaunchTemplateVersions": deleted, "UnsuccessfullyDeletedLaunchTemplateVersions": not_deleted}


def _delete_version(template: Any, number: str) -> dict[str, str] | None:
    """Delete the version, or return AWS's error if the version cannot be deleted."""
    try:
        version = find_version(template, number)
    except AwsError as error:
        return {"Code": "launchTemplateVersionDoesNotExist", "Message": error.message}
    if template.is_default(version):
        return {"Code": "unexpectedError", "Message": "The default version of a launch template cannot be deleted."}
    template.versions.remove(version)
    return None


def _find_template(call: Call) -> Any:
    return find_template(call.backend, call.params.get("LaunchTemplateId"), call.params.get("LaunchTemplateName"))


def _describe_template(template: Any) -> dict[str, Any]:
    return {
        "LaunchTemplateId": template.id,
        "LaunchTemplateName": template.name,
        "CreateTime": template.create_time,
        "CreatedBy": USER_ARN,
        "DefaultVersionNumber": template.default_version_number,
        "LatestVersionNumber": template.versions[-1].number,
        "Tags": tagging.describe_tags(template.ec2_backend, template.id),
    }


def _describe_version(version: Any) -> dict[str, Any]:
    return {
        "LaunchTemplateId": version.template.id,
        "LaunchTemplateName": version.template.name,
        "VersionNumber": version.number,
        "VersionDescription": version.description,
        "CreateTime": version.create_time,
        "CreatedBy": USER_ARN,
        "DefaultVersion": version.template.is_default(version),
        "LaunchTemplateData": to_boto_format(version.data),
    }
