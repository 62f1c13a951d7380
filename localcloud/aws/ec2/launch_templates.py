"""Launch templates: lookup of versions by number, and validation of version data.

https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/launch-template-restrictions.html
"""

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any

from moto.core.types import Base64EncodedString
from moto.ec2.models.launch_templates import LaunchTemplate, LaunchTemplateVersion

from localcloud.aws.ec2 import refusals, tagging
from localcloud.aws.errors import AwsError

TAGGABLE = ("instance", "volume", "network-interface", "spot-instances-request", "elastic-gpu")
"""Types of the resources that a launch can create and tag."""
MAXIMUM_USER_DATA = 16384  # bytes before encoding: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/user-data.html
_NAME = re.compile(r"[a-zA-Z0-9().\-/_]{3,128}")
_TEMPLATE_ID = re.compile(r"lt-[0-9a-f]{17}")


def extend_moto() -> None:
    """Make moto find versions by number.

    moto uses the number as a list index, which is wrong after a version has been deleted.
    """
    template: Any = LaunchTemplate
    template.get_version = find_version
    template.create_version = _create_version
    template.default_version = lambda self: find_version(self, "$Default")


def forget(backend: Any, template: Any) -> None:
    """Delete a launch template with its name and tags."""
    del backend.launch_templates[template.id], backend.launch_template_name_to_ids[template.name]
    backend.launch_template_insert_order.remove(template.id)
    tagging.delete_resource_tags(backend, template.id)


def find_version(template: Any, version_reference: Any) -> Any:
    """Return the version with the given number, or the version to which `$Latest` or `$Default` refers."""
    text = str(version_reference)
    if text == "$Latest":
        return template.versions[-1]
    number = str(template.default_version_number) if text == "$Default" else text
    for version in template.versions:
        if str(version.number) == number:
            return version
    raise AwsError(
        "InvalidLaunchTemplateId.VersionNotFound",
        f"Could not find launch template version {text} for launch template {template.id}.",
    )


def _create_version(template: Any, data: dict[str, Any], description: str) -> Any:
    template.highest_number = getattr(template, "highest_number", 0) + 1
    version = LaunchTemplateVersion(template, template.highest_number, data, description)
    template.versions.append(version)
    return version


def find_template(backend: Any, template_id: str | None = None, name: str | None = None) -> Any:
    """Find the template by ID or name. Exactly one of ID and name must be given."""
    if template_id and name:
        raise AwsError(
            "InvalidParameterCombination",
            "Only one of launch template ID and launch template name may be specified in the request.",
        )
    if template_id:
        if not _TEMPLATE_ID.fullmatch(template_id):
            raise AwsError("InvalidLaunchTemplateId.Malformed", f'Invalid id: "{template_id}" (expecting "lt-...")')
        if template_id not in backend.launch_templates:
            raise AwsError(
                "InvalidLaunchTemplateId.NotFound",
                f"The specified launch template, with template ID {template_id}, does not exist.",
            )
        return backend.launch_templates[template_id]
    if not name:
        raise refusals.build_missing_parameter_error("launchTemplateId or launchTemplateName")
    if name not in backend.launch_template_name_to_ids:
        raise AwsError(
            "InvalidLaunchTemplateName.NotFoundException",
            f"The specified launch template, with template name {name}, does not exist.",
        )
    return backend.launch_templates[backend.launch_template_name_to_ids[name]]


def find_specified_version(backend: Any, specification: Mapping[str, Any]) -> Any:
    """Return the version selected by a `LaunchTemplate` specification.

    The specification contains `LaunchTemplateId` or `LaunchTemplateName`, and `Version`.
    """
    template = find_template(backend, specification.get("LaunchTemplateId"), specification.get("LaunchTemplateName"))
    return find_version(template, specification.get("Version") or "$Default")


def check_name(backend: Any, name: str) -> None:
    if not _NAME.fullmatch(name):
        raise AwsError(
            "InvalidLaunchTemplateName.MalformedException",
            f"The launch template name '{name}' is not valid. Use 3 to 128 letters, digits and the characters -./_().",
        )
    if name in backend.launch_template_name_to_ids:
        raise AwsError("InvalidLaunchTemplateName.AlreadyExistsException", "Launch template name already in use.")


def to_moto_format(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a new version's data in moto's storage format.

    Raise the errors that AWS reports when the version is created, before any launch.
    """
    result = {key: value for key, value in data.items() if value is not None}
    image = str(result.get("ImageId", ""))
    if image and not image.startswith(("ami-", "resolve:ssm:")):
        raise AwsError("InvalidAMIID.Malformed", f'Invalid id: "{image}" (expecting "ami-...")')
    if "UserData" in result:
        check_user_data(str(result["UserData"]))
        result["UserData"] = Base64EncodedString(str(result["UserData"]))
    if result.get("InstanceType") and result.get("InstanceRequirements"):
        raise AwsError(
            "InvalidParameterCombination", "InstanceType and InstanceRequirements may not be specified on the same request."
        )
    tagging.read_requested_tags(result.get("TagSpecifications"), *TAGGABLE)
    hops = result.get("MetadataOptions", {}).get("HttpPutResponseHopLimit", 1)
    if not 1 <= hops <= 64:
        raise refusals.build_invalid_value_error(hops, "httpPutResponseHopLimit", "It must be between 1 and 64.")
    return result


def check_user_data(encoded: str) -> None:
    try:
        text = base64.b64decode(encoded, validate=True)
    except binascii.Error as error:
        raise AwsError("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data.") from error
    if len(text) > MAXIMUM_USER_DATA:
        raise AwsError("InvalidParameterValue", f"User data is limited to {MAXIMUM_USER_DATA} bytes")


def to_boto_format(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a version's data in boto3's format."""
    result = dict(data)
    if result.get("UserData") is not None:
        result["UserData"] = str(result["UserData"])
    return result
