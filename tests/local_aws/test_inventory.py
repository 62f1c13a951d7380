"""The inventory finds all leftover resources of an account in every service, and nothing else."""

from collections.abc import Callable
from typing import Any

import pytest

from localcloud.aws import inventory
from localcloud.aws.call import backend_of
from testkit.aws_clients import Client, LocalAws
from tests.local_aws.documents import EC2_TRUST, READ_OBJECTS

HERE = {"LocationConstraint": "us-west-2"}


def find_default_vpc(aws: Client) -> str:
    vpcs = aws("ec2").describe_vpcs(Filters=[{"Name": "is-default", "Values": ["true"]}])["Vpcs"]
    return str(vpcs[0]["VpcId"])


def find_default_subnet(aws: Client) -> str:
    return str(aws("ec2").describe_subnets()["Subnets"][0]["SubnetId"])


def find_vpc_default(aws: Client, what: str) -> str:
    """Return the id of the default VPC's main route table or default security group."""
    vpc_filter = [{"Name": "vpc-id", "Values": [find_default_vpc(aws)]}]
    if what == "route table":
        return str(aws("ec2").describe_route_tables(Filters=vpc_filter)["RouteTables"][0]["RouteTableId"])
    return str(aws("ec2").describe_security_groups(Filters=vpc_filter)["SecurityGroups"][0]["GroupId"])


def create_file_system(aws: Client) -> str:
    return str(aws("efs").create_file_system(CreationToken="t")["FileSystemId"])


def add_stray_route(aws: Client) -> None:
    interface = aws("ec2").create_network_interface(SubnetId=find_default_subnet(aws))["NetworkInterface"]["NetworkInterfaceId"]
    aws("ec2").create_route(
        RouteTableId=find_vpc_default(aws, "route table"), DestinationCidrBlock="192.0.2.0/24", NetworkInterfaceId=interface
    )


def add_stray_rule(aws: Client) -> None:
    rule = {"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
    aws("ec2").authorize_security_group_ingress(GroupId=find_vpc_default(aws, "security group"), IpPermissions=[rule])


def make_stray_tagger(resource: Callable[[Client], str]) -> Callable[[Client], None]:
    return lambda aws: aws("ec2").create_tags(Resources=[resource(aws)], Tags=[{"Key": "stack", "Value": "old"}])


def create_bucket(aws: Client) -> None:
    aws("s3").create_bucket(Bucket="left-over", CreateBucketConfiguration=HERE)


def create_role(aws: Client) -> None:
    aws("iam").create_role(RoleName="r", AssumeRolePolicyDocument=EC2_TRUST)


ORPHANS: dict[str, tuple[str, Callable[[Client], Any]]] = {
    "queue": ("sqs", lambda aws: aws("sqs").create_queue(QueueName="q")),
    "topic": ("sns", lambda aws: aws("sns").create_topic(Name="t")),
    "table": (
        "dynamodb",
        lambda aws: aws("dynamodb").create_table(
            TableName="t",
            KeySchema=[{"AttributeName": "k", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "k", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        ),
    ),
    "stream": ("kinesis", lambda aws: aws("kinesis").create_stream(StreamName="s", ShardCount=1)),
    "secret": ("secretsmanager", lambda aws: aws("secretsmanager").create_secret(Name="s", SecretString="x")),
    "parameter": ("ssm", lambda aws: aws("ssm").put_parameter(Name="/mine/p", Value="v", Type="String")),
    "repository": ("ecr", lambda aws: aws("ecr").create_repository(repositoryName="repository")),
    "zone": ("route53", lambda aws: aws("route53").create_hosted_zone(Name="example.org.", CallerReference="x")),
    "certificate": ("acm", lambda aws: aws("acm").request_certificate(DomainName="example.org")),
    "alarm": (
        "cloudwatch",
        lambda aws: aws("cloudwatch").put_metric_alarm(
            AlarmName="a",
            ComparisonOperator="LessThanThreshold",
            EvaluationPeriods=1,
            Threshold=1.0,
            MetricName="m",
            Namespace="n",
            Period=60,
            Statistic="Sum",
        ),
    ),
    "event rule": ("events", lambda aws: aws("events").put_rule(Name="r", ScheduleExpression="rate(1 day)")),
    "backup vault": ("backup", lambda aws: aws("backup").create_backup_vault(BackupVaultName="v")),
    "container cluster": ("ecs", lambda aws: aws("ecs").create_cluster(clusterName="c")),
    "log group": ("logs", lambda aws: aws("logs").create_log_group(logGroupName="/aws/eks/old/cluster")),
    "IAM policy": ("iam", lambda aws: aws("iam").create_policy(PolicyName="p", PolicyDocument=READ_OBJECTS)),
    "IAM role": ("iam", create_role),
    "IAM user": ("iam", lambda aws: aws("iam").create_user(UserName="u")),
    "policy of the engineer": (
        "iam",
        lambda aws: aws("iam").put_user_policy(UserName="local-engineer", PolicyName="p", PolicyDocument=READ_OBJECTS),
    ),
    "tag of the engineer": ("iam", lambda aws: aws("iam").tag_user(UserName="local-engineer", Tags=[{"Key": "k", "Value": "v"}])),
    "instance profile": ("iam", lambda aws: aws("iam").create_instance_profile(InstanceProfileName="p")),
    "OIDC provider": (
        "iam",
        lambda aws: aws("iam").create_open_id_connect_provider(Url="https://example.org", ThumbprintList=["a" * 40]),
    ),
    "KMS key": ("kms", lambda aws: aws("kms").create_key()),
    "bucket": ("s3", create_bucket),
    "file system": ("efs", create_file_system),
    "mount target": (
        "efs",
        lambda aws: aws("efs").create_mount_target(FileSystemId=create_file_system(aws), SubnetId=find_default_subnet(aws)),
    ),
    "VPC": ("ec2", lambda aws: aws("ec2").create_vpc(CidrBlock="10.0.0.0/16")),
    "subnet": ("ec2", lambda aws: aws("ec2").create_subnet(VpcId=find_default_vpc(aws), CidrBlock="172.31.200.0/24")),
    "route": ("ec2", add_stray_route),
    "security group rule": ("ec2", add_stray_rule),
    "security group": (
        "ec2",
        lambda aws: aws("ec2").create_security_group(GroupName="g", Description="d", VpcId=find_default_vpc(aws)),
    ),
    "tag on a VPC": ("ec2", make_stray_tagger(find_default_vpc)),
    "tag on a subnet": ("ec2", make_stray_tagger(find_default_subnet)),
    "address": ("ec2", lambda aws: aws("ec2").allocate_address(Domain="vpc")),
    "volume": ("ec2", lambda aws: aws("ec2").create_volume(AvailabilityZone="us-west-2a", Size=1)),
    "interface": ("ec2", lambda aws: aws("ec2").create_network_interface(SubnetId=find_default_subnet(aws))),
    "key pair": ("ec2", lambda aws: aws("ec2").create_key_pair(KeyName="k")),
    "launch template": (
        "ec2",
        lambda aws: aws("ec2").create_launch_template(
            LaunchTemplateName="template", LaunchTemplateData={"InstanceType": "t3.micro"}
        ),
    ),
    "account setting": ("ec2", lambda aws: aws("ec2").enable_ebs_encryption_by_default()),
    "resource in another region": ("ec2", lambda aws: aws("ec2", "eu-west-1").create_vpc(CidrBlock="10.0.0.0/16")),
    "state machine": (
        "stepfunctions",
        lambda aws: aws("stepfunctions").create_state_machine(
            name="m",
            definition='{"StartAt":"a","States":{"a":{"Type":"Pass","End":true}}}',
            roleArn="arn:aws:iam::123456789012:role/r",
        ),
    ),
}


def test_a_new_account_has_no_leftovers(aws: Client) -> None:
    assert inventory.list_leftovers() == []


def test_reading_an_account_creates_no_leftovers(aws: Client) -> None:
    for service in ("ec2", "eks", "iam", "kms", "efs", "s3", "logs", "ssm", "sts", "autoscaling", "service-quotas"):
        client = aws(service)
        for method, operation in client.meta.method_to_api_mapping.items():
            shape = client.meta.service_model.operation_model(operation).input_shape
            if operation.startswith(("Describe", "Get", "List")) and not (shape and shape.required_members):
                try:
                    getattr(client, method)()
                except client.exceptions.ClientError:
                    continue
    aws("kms").describe_key(KeyId="alias/aws/ebs")
    aws("ssm").get_parameter(Name="/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/standard/recommended/image_id")
    assert [str(leftover) for leftover in inventory.list_leftovers()] == []


@pytest.mark.parametrize("what", ORPHANS)
def test_an_orphaned_resource_is_reported_as_a_leftover(aws: Client, what: str) -> None:
    service, plant = ORPHANS[what]
    plant(aws)
    leftovers = inventory.list_leftovers()
    assert leftovers, f"the {what} is not found"
    assert service in {leftover.service for leftover in leftovers}


def test_a_leftover_is_identified_by_service_region_and_id(aws: Client) -> None:
    group = aws("ec2").create_security_group(GroupName="g", Description="d", VpcId=find_default_vpc(aws))["GroupId"]
    leftover = next(item for item in inventory.list_leftovers() if item.key == group)
    assert (leftover.service, leftover.account, leftover.region) == ("ec2", "123456789012", "us-west-2")
    assert leftover.description.startswith("SecurityGroup ")
    assert group in str(leftover)


def test_a_stray_route_in_the_default_route_table_is_reported_as_a_leftover(aws: Client) -> None:
    add_stray_route(aws)
    assert any(
        leftover.container.startswith("route_tables.") and "192.0.2.0/24" in leftover.key
        for leftover in inventory.list_leftovers()
    )


def test_leftovers_in_another_account_are_found(aws: Client) -> None:
    backend_of("sqs", "111122223333", "us-west-2").create_queue("q", {})
    assert "111122223333" in {leftover.account for leftover in inventory.list_leftovers()}


def create_and_delete_all(aws: Client) -> None:
    """Create and delete most kinds of resources that a cluster needs."""
    ec2, iam, kms, logs, s3 = aws("ec2"), aws("iam"), aws("kms"), aws("logs"), aws("s3")
    tags = [{"Key": "stack", "Value": "s"}]
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/24")["Subnet"]["SubnetId"]
    gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
    group = ec2.create_security_group(GroupName="g", Description="d", VpcId=vpc)["GroupId"]
    address = ec2.allocate_address(Domain="vpc")["AllocationId"]
    nat = ec2.create_nat_gateway(SubnetId=subnet, AllocationId=address)["NatGateway"]["NatGatewayId"]
    ec2.create_tags(Resources=[vpc, subnet, group, nat, gateway, address], Tags=tags)
    ec2.delete_nat_gateway(NatGatewayId=nat)
    ec2.describe_nat_gateways()
    ec2.release_address(AllocationId=address)
    ec2.delete_security_group(GroupId=group)
    ec2.delete_subnet(SubnetId=subnet)
    ec2.detach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
    ec2.delete_internet_gateway(InternetGatewayId=gateway)
    ec2.delete_vpc(VpcId=vpc)
    iam.create_role(RoleName="r", AssumeRolePolicyDocument=EC2_TRUST, Tags=tags)
    iam.put_role_policy(RoleName="r", PolicyName="p", PolicyDocument=READ_OBJECTS)
    iam.attach_role_policy(RoleName="r", PolicyArn="arn:aws:iam::aws:policy/AmazonEKSClusterPolicy")
    iam.detach_role_policy(RoleName="r", PolicyArn="arn:aws:iam::aws:policy/AmazonEKSClusterPolicy")
    iam.delete_role_policy(RoleName="r", PolicyName="p")
    iam.delete_role(RoleName="r")
    key = kms.create_key(Tags=[{"TagKey": "stack", "TagValue": "s"}])["KeyMetadata"]["KeyId"]
    kms.create_alias(AliasName="alias/a", TargetKeyId=key)
    kms.delete_alias(AliasName="alias/a")
    kms.schedule_key_deletion(KeyId=key)
    logs.create_log_group(logGroupName="g", tags={"stack": "s"})
    logs.delete_log_group(logGroupName="g")
    s3.create_bucket(Bucket="key-bucket", CreateBucketConfiguration=HERE)
    s3.put_bucket_tagging(Bucket="key-bucket", Tagging={"TagSet": tags})
    s3.put_object(Bucket="key-bucket", Key="k", Body=b"x")
    s3.delete_object(Bucket="key-bucket", Key="k")
    s3.delete_bucket(Bucket="key-bucket")


def test_deleted_resources_are_not_reported_as_leftovers(aws: Client) -> None:
    create_and_delete_all(aws)
    assert [str(leftover) for leftover in inventory.list_leftovers()] == []


def test_a_terminated_tagged_instance_is_not_a_leftover(aws: Client) -> None:
    ec2 = aws("ec2")
    image = ec2.describe_images(Filters=[{"Name": "name", "Values": ["al2023*x86_64"]}])["Images"][0]["ImageId"]
    specification = [{"ResourceType": "instance", "Tags": [{"Key": "stack", "Value": "s"}]}]
    instance_id = ec2.run_instances(
        ImageId=image,
        InstanceType="m7i.large",
        MinCount=1,
        MaxCount=1,
        SubnetId=find_default_subnet(aws),
        TagSpecifications=specification,
    )["Instances"][0]["InstanceId"]
    assert inventory.list_leftovers()
    ec2.terminate_instances(InstanceIds=[instance_id])
    ec2.describe_instances()
    assert [str(leftover) for leftover in inventory.list_leftovers()] == []


def test_the_server_reports_leftovers(server: LocalAws) -> None:
    assert server.call_control_api("GET", "inventory") == []
    server.client("sqs").create_queue(QueueName="forgotten")
    assert [leftover["key"] for leftover in server.call_control_api("GET", "inventory")] == ["forgotten"]


def test_accepted_prerequisites_are_reported_only_if_they_change(aws: Client) -> None:
    vpc = aws("ec2").create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    inventory.accept_current_resources()
    assert inventory.list_leftovers() == []
    aws("ec2").create_tags(Resources=[vpc], Tags=[{"Key": "stack", "Value": "s"}])
    aws("sqs").create_queue(QueueName="q")
    assert sorted((leftover.service, leftover.key) for leftover in inventory.list_leftovers()) == [("ec2", vpc), ("sqs", "q")]
