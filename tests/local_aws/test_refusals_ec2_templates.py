"""Launch template calls that EC2 rejects."""

import base64
from collections.abc import Iterator

import pytest

from tests.local_aws.ec2_refusals import API, ERRORS, GUIDE, check_refusal, shared_ec2_world
from tests.local_aws.ec2_world import World
from tests.local_aws.refusals import Refusal


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with shared_ec2_world() as refusing:
        yield refusing


def make_user_data(length: int) -> str:
    return base64.b64encode(b"x" * length).decode()


TEMPLATES = [
    Refusal(
        "a name in use",
        "create_launch_template",
        {"LaunchTemplateName": "known", "LaunchTemplateData": {"KeyName": "a"}},
        "InvalidLaunchTemplateName.AlreadyExistsException",
        ERRORS,
    ),
    Refusal(
        "a name with a space",
        "create_launch_template",
        {"LaunchTemplateName": "my template", "LaunchTemplateData": {"KeyName": "a"}},
        "InvalidLaunchTemplateName.MalformedException",
        ERRORS,
    ),
    Refusal(
        "user data that is not base64",
        "create_launch_template",
        {"LaunchTemplateName": "new", "LaunchTemplateData": {"UserData": "#!/bin/sh"}},
        "InvalidUserData.Malformed",
        ERRORS,
    ),
    Refusal(
        "user data larger than 16 KiB",
        "create_launch_template",
        {"LaunchTemplateName": "new", "LaunchTemplateData": {"UserData": make_user_data(16385)}},
        "InvalidParameterValue",
        f"{GUIDE}/user-data.html",
    ),
    Refusal(
        "a malformed image id",
        "create_launch_template",
        {"LaunchTemplateName": "new", "LaunchTemplateData": {"ImageId": "al2023"}},
        "InvalidAMIID.Malformed",
        ERRORS,
    ),
    Refusal(
        "a hop limit of 65",
        "create_launch_template",
        {"LaunchTemplateName": "new", "LaunchTemplateData": {"MetadataOptions": {"HttpPutResponseHopLimit": 65}}},
        "InvalidParameterValue",
        f"{API}/API_LaunchTemplateInstanceMetadataOptionsRequest.html",
    ),
    Refusal(
        "tags for another resource type",
        "create_launch_template",
        {
            "LaunchTemplateName": "new",
            "LaunchTemplateData": {"KeyName": "a"},
            "TagSpecifications": [{"ResourceType": "instance", "Tags": [{"Key": "a", "Value": "b"}]}],
        },
        "InvalidParameterValue",
        f"{API}/API_CreateLaunchTemplate.html",
    ),
    Refusal(
        "a nonexistent id",
        "describe_launch_templates",
        {"LaunchTemplateIds": ["lt-00000000000000000"]},
        "InvalidLaunchTemplateId.NotFound",
        ERRORS,
    ),
    Refusal(
        "a malformed id",
        "describe_launch_templates",
        {"LaunchTemplateIds": ["lt-mine"]},
        "InvalidLaunchTemplateId.Malformed",
        ERRORS,
    ),
    Refusal(
        "a nonexistent name",
        "describe_launch_templates",
        {"LaunchTemplateNames": ["nobody"]},
        "InvalidLaunchTemplateName.NotFoundException",
        ERRORS,
    ),
    Refusal(
        "a nonexistent launch template version",
        "describe_launch_template_versions",
        {"LaunchTemplateName": "known", "Versions": ["7"]},
        "InvalidLaunchTemplateId.VersionNotFound",
        ERRORS,
    ),
    Refusal(
        "a nonexistent source version",
        "create_launch_template_version",
        {"LaunchTemplateName": "known", "SourceVersion": "7", "LaunchTemplateData": {"KeyName": "a"}},
        "InvalidLaunchTemplateId.VersionNotFound",
        ERRORS,
    ),
    Refusal(
        "a nonexistent default version",
        "modify_launch_template",
        {"LaunchTemplateName": "known", "DefaultVersion": "7"},
        "InvalidLaunchTemplateId.VersionNotFound",
        ERRORS,
    ),
    Refusal(
        "a nonexistent template",
        "delete_launch_template",
        {"LaunchTemplateId": "lt-00000000000000000"},
        "InvalidLaunchTemplateId.NotFound",
        ERRORS,
    ),
    Refusal(
        "a nonexistent template",
        "run_instances",
        {"LaunchTemplate": {"LaunchTemplateName": "nobody"}, "MinCount": 1, "MaxCount": 1},
        "InvalidLaunchTemplateName.NotFoundException",
        ERRORS,
    ),
    Refusal(
        "a launch template with a nonexistent image",
        "run_instances",
        {"LaunchTemplate": {"LaunchTemplateName": "known"}, "MinCount": 1, "MaxCount": 1},
        "InvalidAMIID.NotFound",
        ERRORS,
    ),
]


@pytest.mark.parametrize("refusal", TEMPLATES, ids=str)
def test_ec2_rejects_invalid_requests_and_creates_nothing(world: World, refusal: Refusal) -> None:
    check_refusal(world, refusal)
