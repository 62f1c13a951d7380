"""What the official AWS provider sends and expects beyond what the emulated provider does, as observed with version 6.47."""

from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from testkit.aws_clients import Client, LocalAws
from tests.local_aws.documents import allow_statement, make_policy

HERE = {"LocationConstraint": "us-west-2"}
TAGS = [{"Key": "team", "Value": "vision"}, {"Key": "empty", "Value": ""}]
NAMED = {"AccountId": "123456789012", "ResourceArn": "arn:aws:s3:::key-bucket"}


@pytest.fixture
def bucket(aws: Client) -> Any:
    s3 = aws("s3")
    s3.create_bucket(Bucket="key-bucket", CreateBucketConfiguration={**HERE, "Tags": TAGS})
    return s3


# --- tags of buckets


def test_a_new_bucket_keeps_its_tags(bucket: Any) -> None:
    assert bucket.get_bucket_tagging(Bucket="key-bucket")["TagSet"] == TAGS


def test_s3_control_reads_and_changes_the_tags_of_a_bucket(aws: Client, bucket: Any) -> None:
    control = aws("s3control")
    assert control.list_tags_for_resource(**NAMED)["Tags"] == TAGS
    control.tag_resource(**NAMED, Tags=[{"Key": "team", "Value": "audio"}])
    control.untag_resource(**NAMED, TagKeys=["empty"])
    assert bucket.get_bucket_tagging(Bucket="key-bucket")["TagSet"] == [{"Key": "team", "Value": "audio"}]


@pytest.mark.parametrize(
    ("arn", "code"),
    [("arn:aws:s3:::no-such-bucket", "NoSuchBucket"), ("arn:aws:s3:::key-bucket/key", "NotImplementedInLocalCloud")],
)
def test_s3_control_rejects_resources_other_than_buckets(aws: Client, bucket: Any, arn: str, code: str) -> None:
    with pytest.raises(ClientError, match=code):
        aws("s3control").list_tags_for_resource(**{**NAMED, "ResourceArn": arn})


def test_s3_control_is_reachable_under_its_account_host_prefix(server: LocalAws) -> None:
    """SDKs put the account ID in front of the host name. The name does not resolve, so they reach the server as a proxy."""
    server.client("s3").create_bucket(Bucket="key-bucket", CreateBucketConfiguration={**HERE, "Tags": TAGS})
    proxied = Config(proxies={"http": server.endpoint}, retries={"total_max_attempts": 1})
    control = server.client("s3control", config=proxied)
    hosts: list[str] = []
    control.meta.events.register("before-send", lambda request, **_: hosts.append(urlsplit(request.url).hostname))
    assert control.list_tags_for_resource(**NAMED)["Tags"] == TAGS
    assert hosts == ["123456789012.127.0.0.1"]


# --- lifecycle configurations

RULES: dict[str, dict[str, Any]] = {
    "sizes": {"Filter": {"ObjectSizeGreaterThan": 5}, "Expiration": {"Days": 3}},
    "small": {"Filter": {"ObjectSizeLessThan": 500}, "Expiration": {"ExpiredObjectDeleteMarker": True}},
    "and": {
        "Filter": {"And": {"Prefix": "a/", "Tags": TAGS, "ObjectSizeGreaterThan": 5, "ObjectSizeLessThan": 900}},
        "Transitions": [{"Days": 30, "StorageClass": "STANDARD_IA"}, {"Days": 90, "StorageClass": "GLACIER"}],
    },
    "noncurrent": {
        "Filter": {"Prefix": ""},
        "NoncurrentVersionExpiration": {"NoncurrentDays": 3, "NewerNoncurrentVersions": 2},
        "NoncurrentVersionTransitions": [{"NoncurrentDays": 1, "StorageClass": "GLACIER", "NewerNoncurrentVersions": 4}],
    },
    "old notation": {"Prefix": "logs/", "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7}},
}


def put_lifecycle(s3: Any, *rules: dict[str, Any], **more: Any) -> Any:
    configuration = {"Rules": [{"Status": "Enabled", **rule} for rule in rules]}
    return s3.put_bucket_lifecycle_configuration(Bucket="key-bucket", LifecycleConfiguration=configuration, **more)


@pytest.mark.parametrize("size", ["varies_by_storage_class", "all_storage_classes_128K"])
def test_a_lifecycle_configuration_is_returned_unchanged(bucket: Any, size: str) -> None:
    rules = [{"ID": name, "Status": "Enabled", **rule} for name, rule in RULES.items()]
    assert put_lifecycle(bucket, *rules, TransitionDefaultMinimumObjectSize=size)["TransitionDefaultMinimumObjectSize"] == size
    described = bucket.get_bucket_lifecycle_configuration(Bucket="key-bucket")
    assert described["Rules"] == rules
    assert described["TransitionDefaultMinimumObjectSize"] == size


def test_a_rule_without_an_id_gets_one_and_a_deleted_configuration_is_gone(bucket: Any) -> None:
    put_lifecycle(bucket, RULES["sizes"])
    described = bucket.get_bucket_lifecycle_configuration(Bucket="key-bucket")
    assert described["Rules"][0]["ID"]
    assert described["TransitionDefaultMinimumObjectSize"] == "all_storage_classes_128K"
    bucket.delete_bucket_lifecycle(Bucket="key-bucket")
    with pytest.raises(ClientError, match="NoSuchLifecycleConfiguration"):
        bucket.get_bucket_lifecycle_configuration(Bucket="key-bucket")


@pytest.mark.parametrize(
    "rule",
    [
        {"Filter": {"Prefix": "a", "ObjectSizeGreaterThan": 5}, "Expiration": {"Days": 3}},
        {"Filter": {"Prefix": ""}, "Expiration": {"Days": 3, "ExpiredObjectDeleteMarker": True}},
        {"Filter": {"Prefix": ""}, "NoncurrentVersionExpiration": {"NewerNoncurrentVersions": 2}},
        {"Filter": {"Prefix": ""}, "AbortIncompleteMultipartUpload": {}},
    ],
)
def test_a_contradictory_lifecycle_rule_is_rejected(bucket: Any, rule: dict[str, Any]) -> None:
    with pytest.raises(ClientError, match=r"MalformedXML|InvalidRequest"):
        put_lifecycle(bucket, rule)


# --- instances, DHCP options, log groups, messages


@pytest.fixture
def instance(aws: Client) -> str:
    ec2 = aws("ec2")
    architecture = [{"Name": "architecture", "Values": ["x86_64"]}]
    image = ec2.describe_images(Owners=["amazon"], Filters=architecture)["Images"][0]["ImageId"]
    launched = ec2.run_instances(ImageId=image, InstanceType="t3.micro", MinCount=1, MaxCount=1, UserData="#!/bin/sh")
    return str(launched["Instances"][0]["InstanceId"])


@pytest.mark.parametrize(("text", "described"), [(b"", {}), (b"#!/bin/bash", {"Value": "IyEvYmluL2Jhc2g="})])
def test_user_data_can_be_changed_only_while_the_instance_is_stopped(
    aws: Client, instance: str, text: bytes, described: dict[str, str]
) -> None:
    ec2 = aws("ec2")
    with pytest.raises(ClientError, match="IncorrectInstanceState"):
        ec2.modify_instance_attribute(InstanceId=instance, UserData={"Value": text})
    ec2.stop_instances(InstanceIds=[instance])
    ec2.get_waiter("instance_stopped").wait(InstanceIds=[instance], WaiterConfig={"Delay": 0, "MaxAttempts": 50})
    ec2.modify_instance_attribute(InstanceId=instance, UserData={"Value": text})
    assert ec2.describe_instance_attribute(InstanceId=instance, Attribute="userData")["UserData"] == described


def test_detailed_monitoring_can_be_turned_on_and_off(aws: Client, instance: str) -> None:
    ec2 = aws("ec2")

    def read_state() -> str:
        [reservation] = ec2.describe_instances(InstanceIds=[instance])["Reservations"]
        return str(reservation["Instances"][0]["Monitoring"]["State"])

    assert read_state() == "disabled"
    ec2.monitor_instances(InstanceIds=[instance])
    assert read_state() == "enabled"
    ec2.unmonitor_instances(InstanceIds=[instance])
    assert read_state() == "disabled"
    with pytest.raises(ClientError, match=r"InvalidInstanceID\.NotFound"):
        ec2.monitor_instances(InstanceIds=["i-0123456789abcdef0"])


def test_dhcp_options_keep_their_tags(aws: Client) -> None:
    created = aws("ec2").create_dhcp_options(
        DhcpConfigurations=[{"Key": "domain-name", "Values": ["example.com"]}],
        TagSpecifications=[{"ResourceType": "dhcp-options", "Tags": TAGS}],
    )["DhcpOptions"]
    [described] = aws("ec2").describe_dhcp_options(DhcpOptionsIds=[created["DhcpOptionsId"]])["DhcpOptions"]
    assert created["Tags"] == described["Tags"] == TAGS


@pytest.mark.parametrize(
    ("operation", "parameter", "prefix"),
    [
        ("describe_vpcs", "VpcIds", "vpc"),
        ("describe_volumes", "VolumeIds", "vol"),
        ("describe_security_groups", "GroupIds", "sg"),
    ],
)
def test_the_error_for_missing_resources_lists_their_ids(aws: Client, operation: str, parameter: str, prefix: str) -> None:
    missing = [f"{prefix}-0123456789abcdef{place}" for place in (1, 0)]
    with pytest.raises(ClientError, match=f"{missing[1]}, {missing[0]}") as caught:
        getattr(aws("ec2"), operation)(**{parameter: missing})
    assert "{" not in str(caught.value)


def test_a_kms_key_can_be_removed_from_a_log_group(aws: Client) -> None:
    logs = aws("logs")
    service = allow_statement(Principal={"Service": "logs.us-west-2.amazonaws.com"}, Action="kms:*", Resource="*")
    owner = allow_statement(Principal={"AWS": "arn:aws:iam::123456789012:root"}, Action="kms:*", Resource="*")
    key = aws("kms").create_key(Policy=make_policy(owner, service))["KeyMetadata"]["Arn"]
    logs.create_log_group(logGroupName="group", kmsKeyId=key)
    logs.disassociate_kms_key(logGroupName="group")
    assert "kmsKeyId" not in logs.describe_log_groups(logGroupNamePrefix="group")["logGroups"][0]


def test_an_instance_profile_lists_its_tags(aws: Client) -> None:
    aws("iam").create_instance_profile(InstanceProfileName="nodes", Tags=TAGS)
    assert aws("iam").list_instance_profile_tags(InstanceProfileName="nodes")["Tags"] == TAGS
