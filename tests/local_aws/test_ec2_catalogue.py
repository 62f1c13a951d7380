"""EC2's descriptions of launch templates, images and instance types."""

import base64

from localcloud.aws.images import list_ssm_parameters
from testkit.aws_clients import REGION, Client
from tests.local_aws.ec2_world import find_eks_ami


def test_a_launch_template_version_based_on_another_inherits_its_other_fields(aws: Client) -> None:
    ec2 = aws("ec2")
    text = base64.b64encode(b"#!/bin/sh").decode()
    first = {"InstanceType": "g5.8xlarge", "UserData": text, "MetadataOptions": {"HttpTokens": "required"}}
    ec2.create_launch_template(LaunchTemplateName="nodes", LaunchTemplateData=first)
    version = ec2.create_launch_template_version(
        LaunchTemplateName="nodes",
        SourceVersion="1",
        LaunchTemplateData={"InstanceType": "g5.12xlarge"},
        VersionDescription="bigger",
    )["LaunchTemplateVersion"]
    assert version["LaunchTemplateData"] == {**first, "InstanceType": "g5.12xlarge"}
    assert (version["VersionNumber"], version["VersionDescription"], version["DefaultVersion"]) == (2, "bigger", False)
    alone = ec2.create_launch_template_version(LaunchTemplateName="nodes", LaunchTemplateData={"KeyName": "k"})[
        "LaunchTemplateVersion"
    ]
    assert alone["LaunchTemplateData"] == {"KeyName": "k"}


def test_launch_template_versions_keep_their_numbers_when_others_are_deleted(aws: Client) -> None:
    ec2 = aws("ec2")
    ec2.create_launch_template(LaunchTemplateName="nodes", LaunchTemplateData={"KeyName": "1"})
    for number in ("2", "3"):
        ec2.create_launch_template_version(LaunchTemplateName="nodes", LaunchTemplateData={"KeyName": number})
    ec2.modify_launch_template(LaunchTemplateName="nodes", DefaultVersion="3")
    answer = ec2.delete_launch_template_versions(LaunchTemplateName="nodes", Versions=["1", "3", "9"])
    assert [item["VersionNumber"] for item in answer["SuccessfullyDeletedLaunchTemplateVersions"]] == [1]
    assert [item["VersionNumber"] for item in answer["UnsuccessfullyDeletedLaunchTemplateVersions"]] == [3, 9]
    ec2.create_launch_template_version(LaunchTemplateName="nodes", LaunchTemplateData={"KeyName": "4"})
    versions = ec2.describe_launch_template_versions(LaunchTemplateName="nodes")["LaunchTemplateVersions"]
    assert {item["VersionNumber"]: item["LaunchTemplateData"]["KeyName"] for item in versions} == {4: "4", 3: "3", 2: "2"}
    template = ec2.describe_launch_templates(LaunchTemplateNames=["nodes"])["LaunchTemplates"][0]
    assert (template["DefaultVersionNumber"], template["LatestVersionNumber"]) == (3, 4)
    chosen = ec2.describe_launch_template_versions(LaunchTemplateName="nodes", Versions=["$Latest", "$Default"])
    assert [item["VersionNumber"] for item in chosen["LaunchTemplateVersions"]] == [4, 3]


def test_describe_launch_templates_lists_more_than_fifteen_templates(aws: Client) -> None:
    ec2 = aws("ec2")
    for number in range(20):
        ec2.create_launch_template(LaunchTemplateName=f"nodes-{number}", LaunchTemplateData={"KeyName": "k"})
    assert len(ec2.describe_launch_templates()["LaunchTemplates"]) == 20


def test_launch_template_tags_are_not_part_of_the_template_data(aws: Client) -> None:
    ec2 = aws("ec2")
    created = ec2.create_launch_template(
        LaunchTemplateName="nodes",
        LaunchTemplateData={"KeyName": "k"},
        TagSpecifications=[{"ResourceType": "launch-template", "Tags": [{"Key": "pool", "Value": "train"}]}],
    )["LaunchTemplate"]
    assert created["Tags"] == [{"Key": "pool", "Value": "train"}]
    version = ec2.describe_launch_template_versions(LaunchTemplateName="nodes")["LaunchTemplateVersions"][0]
    assert version["LaunchTemplateData"] == {"KeyName": "k"}, "the template's own tags are not part of its data"
    ec2.create_tags(Resources=[created["LaunchTemplateId"]], Tags=[{"Key": "pool", "Value": "other"}])
    templates = ec2.describe_launch_templates(Filters=[{"Name": "tag:pool", "Values": ["other"]}])["LaunchTemplates"]
    assert [item["LaunchTemplateName"] for item in templates] == ["nodes"]


def test_images_are_found_by_owner_and_name_and_match_the_ssm_parameters(aws: Client) -> None:
    ec2 = aws("ec2")
    filters = [
        {"Name": "name", "Values": ["amazon-eks-node-al2023-x86_64-nvidia-1.35-*"]},
        {"Name": "state", "Values": ["available"]},
    ]
    images = ec2.describe_images(Owners=["amazon"], Filters=filters)["Images"]
    assert [item["ImageId"] for item in images] == [find_eks_ami()]
    assert find_eks_ami() in list_ssm_parameters(REGION).values()
    shown = images[0]
    assert (shown["Architecture"], shown["RootDeviceName"], shown["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"]) == (
        "x86_64",
        "/dev/xvda",
        20,
    )
    assert ec2.describe_images(Owners=["self"])["Images"] == []
    assert ec2.describe_volumes()["Volumes"] == [], "images of other accounts create no volumes"


def test_a_network_card_lists_its_interface_types(aws: Client) -> None:
    shown = aws("ec2").describe_instance_types(InstanceTypes=["p6-b300.48xlarge"])["InstanceTypes"][0]["NetworkInfo"]
    assert shown["NetworkCards"][0]["InterfaceTypes"] == ["interface"]
    assert "efa-only" in shown["NetworkCards"][1]["InterfaceTypes"]
    assert (len(shown["NetworkCards"]), shown["EfaInfo"]["MaximumEfaInterfaces"]) == (17, 16)


def test_instance_type_offerings_are_found_by_type_pattern_and_zone(aws: Client) -> None:
    filters = [{"Name": "instance-type", "Values": ["p4d.*"]}, {"Name": "location", "Values": ["us-west-2a", "us-west-2b"]}]
    offered = aws("ec2").describe_instance_type_offerings(LocationType="availability-zone", Filters=filters)[
        "InstanceTypeOfferings"
    ]
    assert sorted((item["InstanceType"], item["Location"]) for item in offered) == [
        ("p4d.24xlarge", "us-west-2a"),
        ("p4d.24xlarge", "us-west-2b"),
    ]
