"""The actions that each of the program's IAM policies allows and denies."""

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from infra.components import endpoint_policies, iam, trust_policies
from infra.components.iam import Account, Policy
from infra.naming import AUTOSCALER_TAG
from localcloud.aws.policy_evaluation import Request, Values, allows, evaluate_request, list_statements, to_list

ACCOUNT = Account("123456789012", "us-west-2", "aws")
BUCKET = "arn:aws:s3:::keys"
CLUSTER = "arn:aws:eks:us-west-2:123456789012:cluster/gpumpi-x"
LOG_GROUP = "arn:aws:logs:us-west-2:123456789012:log-group:/gpumpi/x/flow-logs"
JOB_LOGS = "arn:aws:logs:us-west-2:123456789012:log-group:/gpumpi/x/jobs"
FILE_SYSTEM = "arn:aws:elasticfilesystem:us-west-2:123456789012:file-system/fs-1"

UNSCOPABLE: Mapping[str, str] = {
    "autoscaling:Describe*": "https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2autoscaling.html",
    "ec2:Describe*": "https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2.html",
    "ec2:GetInstanceTypesFromInstanceRequirements": "https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2.html",
    "ssm:UpdateInstanceInformation": "https://docs.aws.amazon.com/systems-manager/latest/userguide/getting-started-create-iam-instance-profile.html",
    "ssmmessages:*": "https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonmessagegatewayservice.html",
}
"""Maps an action that AWS documents on `*` only to the page that states this. No other action may be allowed on `*`."""

IDENTITY: Mapping[str, Policy] = {
    "allow_session_manager": iam.allow_session_manager(),
    "allow_flow_log_delivery": iam.allow_flow_log_delivery(LOG_GROUP),
    "allow_job_log_writes": iam.allow_job_log_writes(JOB_LOGS),
    "allow_node_key_exchange": iam.allow_node_key_exchange(BUCKET),
    "allow_job_key_exchange": iam.allow_job_key_exchange(BUCKET),
    "allow_bucket_access": iam.allow_bucket_access(ACCOUNT, [iam.BucketPath("datasets", "digits", writes=True)]),
    "allow_member_lookup": iam.allow_member_lookup(),
    "allow_join_completion": iam.allow_join_completion(ACCOUNT, "gpumpi-x-workers"),
    "allow_mount_by_access_point": iam.allow_mount_by_access_point(ACCOUNT, "fs-1", "fsap-1"),
    "allow_node_group_scaling": iam.allow_node_group_scaling(ACCOUNT, "gpumpi-x", AUTOSCALER_TAG),
}
KEYS: Mapping[str, Policy] = {
    "build_secrets_key_policy": iam.build_secrets_key_policy(ACCOUNT),
    "build_logs_key_policy": iam.build_logs_key_policy(ACCOUNT, ["/aws/eks/gpumpi-x/cluster", "/gpumpi/x/flow-logs"]),
    "build_file_system_key_policy": iam.build_file_system_key_policy(ACCOUNT),
}
TRUST: Mapping[str, Policy] = {
    "build_instance_trust_policy": trust_policies.build_instance_trust_policy(),
    "build_cluster_trust_policy": trust_policies.build_cluster_trust_policy(ACCOUNT, "gpumpi-x"),
    "build_flow_log_trust_policy": trust_policies.build_flow_log_trust_policy(ACCOUNT),
    "build_pod_trust_policy": trust_policies.build_pod_trust_policy(ACCOUNT, "gpumpi-x", "mpi-jobs", "mpi-job"),
}
RESOURCE: Mapping[str, Policy] = {
    "build_tls_only_bucket_policy": iam.build_tls_only_bucket_policy(BUCKET),
    "build_file_system_policy": iam.build_file_system_policy(FILE_SYSTEM),
}
ENDPOINTS: Mapping[str, Policy] = {
    "build_s3_endpoint_policy": endpoint_policies.build_s3_endpoint_policy(ACCOUNT, has_internet=True)
}
ALL = {**IDENTITY, **KEYS, **TRUST, **RESOURCE, **ENDPOINTS}
MODULES = (iam, trust_policies, endpoint_policies)


def test_every_iam_policy_in_infra_is_tested_here() -> None:
    helpers = {"list_aws_bucket_arns", "build_policy", "build_statement", "to_json"}
    written = {
        name
        for module in MODULES
        for name, member in vars(module).items()
        if callable(member) and getattr(member, "__module__", "") == module.__name__ and not isinstance(member, type)
    }
    assert {name for name in written if not name.startswith("_")} - helpers == set(ALL)


@pytest.mark.parametrize("name", ALL)
def test_every_statement_has_a_sid_and_only_supported_elements(name: str) -> None:
    assert all(statement.get("Sid") for statement in list_statements(ALL[name]))


# --- wildcards


@pytest.mark.parametrize("name", IDENTITY)
def test_only_actions_without_resource_scope_are_allowed_on_all_resources(name: str) -> None:
    for statement in list_statements(IDENTITY[name]):
        if "*" in to_list(statement["Resource"]) and statement["Effect"] == "Allow":
            scopable = [act for act in to_list(statement["Action"]) if not any(fnmatchcase(act, glob) for glob in UNSCOPABLE)]
            assert scopable == []


@pytest.mark.parametrize("name", [*IDENTITY, *TRUST, *RESOURCE])
def test_no_statement_allows_a_wildcard_action(name: str) -> None:
    for statement in list_statements(ALL[name]):
        if statement["Effect"] == "Allow":
            assert not [action for action in to_list(statement["Action"]) if "*" in action]


def test_wildcard_kms_actions_match_cloudwatch_logs_documentation() -> None:
    """In a key policy, the resource `*` means the key to which the policy is attached.

    https://docs.aws.amazon.com/kms/latest/developerguide/key-policy-overview.html
    """
    wild = {
        action for key in KEYS.values() for part in list_statements(key) for action in to_list(part["Action"]) if "*" in action
    }
    assert wild == {"kms:Decrypt*", "kms:Describe*", "kms:Encrypt*", "kms:GenerateDataKey*", "kms:ReEncrypt*"}
    wild_statements = [
        part["Sid"] for key in KEYS.values() for part in list_statements(key) if wild & set(to_list(part["Action"]))
    ]
    assert wild_statements == ["CloudWatchLogs"]


def test_every_exception_names_its_source() -> None:
    assert all(source.startswith("https://docs.aws.amazon.com/") for source in UNSCOPABLE.values())


# --- key bucket

NODE = {"aws:userid": "AROAEXAMPLE:i-0aaa"}
POD = {"aws:PrincipalTag/kubernetes-namespace": "mpi-jobs", "aws:PrincipalTag/kubernetes-pod-name": "mnist-worker-0"}


@pytest.mark.parametrize(
    ("action", "key", "allowed"),
    [
        ("s3:PutObject", "nodes/AROAEXAMPLE:i-0aaa/notice.json", True),
        ("s3:PutObject", "nodes/AROAEXAMPLE:i-0aaa/boot.log", True),
        ("s3:PutObject", "nodes/AROAEXAMPLE:i-0aaa/waiting.txt", True),
        ("s3:PutObject", "nodes/AROAEXAMPLE:i-0aaa/id.pub", False),
        ("s3:PutObject", "nodes/AROAEXAMPLE:i-0aaa/1/notice.json", False),
        ("s3:PutObject", "nodes/AROAEXAMPLE:i-0bbb/notice.json", False),
        ("s3:PutObject", "nodes/id.pub", False),
        ("s3:PutObject", "jobs/mpi-jobs/mnist-worker-0/id.pub", False),
        ("s3:GetObject", "nodes/AROAEXAMPLE:i-0bbb/id.pub", True),
        ("s3:GetObject", "jobs/mpi-jobs/mnist-worker-0/id.pub", False),
        ("s3:DeleteObject", "nodes/AROAEXAMPLE:i-0aaa/id.pub", False),
        ("s3:PutObjectAcl", "nodes/AROAEXAMPLE:i-0aaa/id.pub", False),
        ("s3:PutBucketPolicy", "", False),
    ],
)
def test_node_writes_its_own_keys_and_reads_keys_of_all_nodes(action: str, key: str, allowed: bool) -> None:
    request = Request(action, f"{BUCKET}/{key}" if key else BUCKET, NODE)
    assert allows(request, IDENTITY["allow_node_key_exchange"]) is allowed


def test_node_may_write_every_object_that_the_join_service_uploads() -> None:
    source = (Path(__file__).parents[2] / "amis/join/gpumpi_join/bucket.py").read_text(encoding="utf-8")
    uploads = re.findall(r'return f"\{folder\}(.+)"', source)
    assert sorted(uploads) == sorted(iam.NODE_UPLOADS)


def test_caller_without_node_identity_cannot_write() -> None:
    request = Request("s3:PutObject", f"{BUCKET}/nodes/AROAEXAMPLE:i-0aaa/notice.json")
    assert not allows(request, IDENTITY["allow_node_key_exchange"])


@pytest.mark.parametrize(
    ("action", "key", "allowed"),
    [
        ("s3:PutObject", "jobs/mpi-jobs/mnist-worker-0/id.pub", True),
        ("s3:PutObject", "jobs/mpi-jobs/mnist-worker-1/id.pub", False),
        ("s3:PutObject", "jobs/other/mnist-worker-0/id.pub", False),
        ("s3:PutObject", "nodes/AROAEXAMPLE:i-0aaa/id.pub", False),
        ("s3:GetObject", "jobs/mpi-jobs/mnist-worker-1/id.pub", True),
        ("s3:GetObject", "jobs/other/mnist-worker-1/id.pub", False),
        ("s3:GetObject", "nodes/AROAEXAMPLE:i-0aaa/id.pub", False),
        ("s3:GetObject", "workdirs/mpi-jobs/0f/7.tar.gz", True),
        ("s3:GetObject", "workdirs/other/0f/7.tar.gz", False),
        ("s3:PutObject", "workdirs/mpi-jobs/0f/7.tar.gz", False),
    ],
)
def test_job_pod_writes_its_own_keys_and_reads_keys_of_its_namespace(action: str, key: str, allowed: bool) -> None:
    assert allows(Request(action, f"{BUCKET}/{key}", POD), IDENTITY["allow_job_key_exchange"]) is allowed


@pytest.mark.parametrize(
    ("policy", "who", "prefix", "allowed"),
    [
        ("allow_node_key_exchange", NODE, "nodes/", True),
        ("allow_node_key_exchange", NODE, "jobs/", False),
        ("allow_node_key_exchange", NODE, "", False),
        ("allow_job_key_exchange", POD, "jobs/mpi-jobs/mnist-", True),
        ("allow_job_key_exchange", POD, "jobs/other/", False),
        ("allow_job_key_exchange", POD, "jobs/", False),
    ],
)
def test_node_and_pod_can_list_only_keys_of_their_own_kind(
    policy: str, who: Mapping[str, str], prefix: str, allowed: bool
) -> None:
    assert allows(Request("s3:ListBucket", BUCKET, {**who, "s3:prefix": prefix}), IDENTITY[policy]) is allowed


@pytest.mark.parametrize(("tls", "decision"), [(True, "allow"), (False, "explicit deny")])
def test_bucket_requires_tls_even_for_the_owner(tls: bool, decision: str) -> None:
    owner = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}
    request = Request("s3:GetObject", f"{BUCKET}/nodes/x", {"aws:SecureTransport": tls}, {"AWS": ACCOUNT.root})
    assert evaluate_request(request, owner, RESOURCE["build_tls_only_bucket_policy"]) == decision


# --- file system

MOUNT = {"elasticfilesystem:AccessedViaMountTarget": True, "aws:SecureTransport": True}


@pytest.mark.parametrize(
    ("action", "context", "decision"),
    [
        ("elasticfilesystem:ClientMount", MOUNT, "allow"),
        ("elasticfilesystem:ClientWrite", MOUNT, "allow"),
        ("elasticfilesystem:ClientRootAccess", MOUNT, "implicit deny"),
        ("elasticfilesystem:DeleteFileSystem", MOUNT, "implicit deny"),
        ("elasticfilesystem:ClientMount", {**MOUNT, "aws:SecureTransport": False}, "explicit deny"),
        ("elasticfilesystem:ClientMount", {"aws:SecureTransport": True}, "implicit deny"),
    ],
)
def test_file_system_accepts_only_encrypted_clients_in_the_vpc(action: str, context: Mapping[str, Values], decision: str) -> None:
    assert evaluate_request(Request(action, FILE_SYSTEM, context), RESOURCE["build_file_system_policy"]) == decision


# --- keys

ENGINEER = {"AWS": "arn:aws:iam::123456789012:user/engineer"}
STRANGER = {"AWS": "arn:aws:iam::999999999999:user/stranger"}
LOGS = {"Service": "logs.us-west-2.amazonaws.com"}
EFS = {"kms:ViaService": "elasticfilesystem.us-west-2.amazonaws.com", "kms:CallerAccount": "123456789012"}
LOG_CONTEXT = "kms:EncryptionContext:aws:logs:arn"


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize(
    ("action", "who", "allowed"),
    [
        ("kms:PutKeyPolicy", ENGINEER, True),
        ("kms:ScheduleKeyDeletion", ENGINEER, True),
        ("kms:EnableKeyRotation", ENGINEER, True),
        ("kms:PutKeyPolicy", STRANGER, False),
        ("kms:Decrypt", STRANGER, False),
        ("kms:Decrypt", ENGINEER, False),
        ("kms:Decrypt", {}, False),
    ],
)
def test_administrators_manage_keys_but_cannot_decrypt_with_them(
    name: str, action: str, who: Mapping[str, str], allowed: bool
) -> None:
    assert allows(Request(action, "key", {}, who), KEYS[name]) is allowed


@pytest.mark.parametrize(
    ("name", "request_", "allowed"),
    [
        ("build_secrets_key_policy", Request("kms:CreateGrant", "key", {}, ENGINEER), True),
        ("build_secrets_key_policy", Request("kms:CreateGrant", "key", {}, STRANGER), False),
        ("build_logs_key_policy", Request("kms:Encrypt", "key", {LOG_CONTEXT: LOG_GROUP}, LOGS), True),
        ("build_logs_key_policy", Request("kms:GenerateDataKey", "key", {LOG_CONTEXT: LOG_GROUP}, LOGS), True),
        ("build_logs_key_policy", Request("kms:Decrypt", "key", {LOG_CONTEXT: LOG_GROUP + "-2"}, LOGS), False),
        ("build_logs_key_policy", Request("kms:Decrypt", "key", {}, LOGS), False),
        ("build_logs_key_policy", Request("kms:PutKeyPolicy", "key", {LOG_CONTEXT: LOG_GROUP}, LOGS), False),
        ("build_file_system_key_policy", Request("kms:Decrypt", "key", EFS, ENGINEER), True),
        ("build_file_system_key_policy", Request("kms:CreateGrant", "key", EFS, ENGINEER), True),
        ("build_file_system_key_policy", Request("kms:Decrypt", "key", EFS, STRANGER), False),
        (
            "build_file_system_key_policy",
            Request("kms:Decrypt", "key", {**EFS, "kms:ViaService": "s3.us-west-2.amazonaws.com"}, ENGINEER),
            False,
        ),
    ],
)
def test_kms_key_can_be_used_only_for_its_purpose(name: str, request_: Request, allowed: bool) -> None:
    assert allows(request_, KEYS[name]) is allowed


# --- roles

POD_TAGS = {
    "aws:SourceAccount": ACCOUNT.id,
    "aws:RequestTag/eks-cluster-arn": CLUSTER,
    "aws:RequestTag/kubernetes-namespace": "mpi-jobs",
    "aws:RequestTag/kubernetes-service-account": "mpi-job",
}
PODS = {"Service": "pods.eks.amazonaws.com"}


@pytest.mark.parametrize(
    ("context", "who", "allowed"),
    [
        (POD_TAGS, PODS, True),
        ({**POD_TAGS, "aws:RequestTag/eks-cluster-arn": CLUSTER + "y"}, PODS, False),
        ({**POD_TAGS, "aws:RequestTag/kubernetes-namespace": "default"}, PODS, False),
        ({**POD_TAGS, "aws:RequestTag/kubernetes-service-account": "default"}, PODS, False),
        ({**POD_TAGS, "aws:SourceAccount": "999999999999"}, PODS, False),
        ({key: value for key, value in POD_TAGS.items() if key != "aws:SourceAccount"}, PODS, False),
        ({}, PODS, False),
        (POD_TAGS, {"Service": "ec2.amazonaws.com"}, False),
        (POD_TAGS, ENGINEER, False),
    ],
)
@pytest.mark.parametrize("action", ["sts:AssumeRole", "sts:TagSession"])
def test_pod_role_can_be_assumed_only_by_its_service_account(
    action: str, context: Mapping[str, str], who: Mapping[str, str], allowed: bool
) -> None:
    assert allows(Request(action, "role", context, who), TRUST["build_pod_trust_policy"]) is allowed


@pytest.mark.parametrize(
    ("context", "allowed"),
    [
        (("123456789012", "arn:aws:ec2:us-west-2:123456789012:vpc-flow-log/fl-1"), True),
        (("999999999999", "arn:aws:ec2:us-west-2:999999999999:vpc-flow-log/fl-1"), False),
        (("123456789012", "arn:aws:ec2:eu-west-1:123456789012:vpc-flow-log/fl-1"), False),
    ],
)
def test_flow_logs_of_other_accounts_cannot_assume_the_delivery_role(context: tuple[str, str], allowed: bool) -> None:
    request = Request(
        "sts:AssumeRole",
        "role",
        {"aws:SourceAccount": context[0], "aws:SourceArn": context[1]},
        {"Service": "vpc-flow-logs.amazonaws.com"},
    )
    assert allows(request, TRUST["build_flow_log_trust_policy"]) is allowed


@pytest.mark.parametrize(("service", "allowed"), [("ec2.amazonaws.com", True), ("eks.amazonaws.com", False)])
def test_node_role_can_be_assumed_only_by_ec2_instances(service: str, allowed: bool) -> None:
    assert allows(Request("sts:AssumeRole", "role", {}, {"Service": service}), TRUST["build_instance_trust_policy"]) is allowed


@pytest.mark.parametrize(
    ("account", "arn", "service", "allowed"),
    [
        (ACCOUNT.id, CLUSTER, "eks.amazonaws.com", True),
        (ACCOUNT.id, CLUSTER, "ec2.amazonaws.com", False),
        (ACCOUNT.id, CLUSTER + "y", "eks.amazonaws.com", False),
        ("999999999999", CLUSTER, "eks.amazonaws.com", False),
        ("999999999999", CLUSTER.replace("123456789012", "999999999999"), "eks.amazonaws.com", False),
    ],
)
def test_other_clusters_and_accounts_cannot_assume_the_control_plane_role(
    account: str, arn: str, service: str, allowed: bool
) -> None:
    context = {"aws:SourceAccount": account, "aws:SourceArn": arn}
    request = Request("sts:AssumeRole", "role", context, {"Service": service})
    assert allows(request, TRUST["build_cluster_trust_policy"]) is allowed


# --- endpoints

OURS = {"aws:PrincipalAccount": ACCOUNT.id}
THEIRS = {"aws:PrincipalAccount": "999999999999"}
LAYERS = "arn:aws:s3:::prod-us-west-2-starport-layer-bucket/layer"
PACKAGES = "arn:aws:s3:::al2023-repos-us-west-2-de612dc2/package"
OTHER_REGION = "arn:aws:s3:::prod-eu-west-1-starport-layer-bucket/layer"
DATA_SET = "arn:aws:s3:::public-data-set/images"


@pytest.mark.parametrize(
    ("action", "resource", "context", "private", "connected"),
    [
        ("s3:PutObject", f"{BUCKET}/nodes/x", OURS, True, True),
        ("s3:GetObject", "arn:aws:s3:::bucket-of-a-partner/data", OURS, True, True),
        ("s3:GetObject", LAYERS, THEIRS, True, True),
        ("s3:GetObject", LAYERS, {}, True, True),
        ("s3:GetObject", PACKAGES, {}, True, True),
        ("s3:GetObject", OTHER_REGION, {}, False, True),
        ("s3:GetObject", DATA_SET, {}, False, True),
        ("s3:ListBucket", "arn:aws:s3:::public-data-set", {}, False, True),
        ("s3:PutObject", "arn:aws:s3:::bucket-of-a-thief/stolen", THEIRS, False, False),
        ("s3:PutObject", "arn:aws:s3:::bucket-of-a-thief/stolen", {}, False, False),
        ("s3:PutObject", LAYERS, THEIRS, False, False),
        ("s3:DeleteObject", f"{BUCKET}/nodes/x", THEIRS, False, False),
    ],
)
def test_s3_endpoint_allows_writes_only_by_principals_of_the_account(
    action: str, resource: str, context: Mapping[str, str], private: bool, connected: bool
) -> None:
    request = Request(action, resource, context, {"AWS": ENGINEER["AWS"]} if context else {})
    assert allows(request, endpoint_policies.build_s3_endpoint_policy(ACCOUNT, has_internet=False)) is private
    assert allows(request, endpoint_policies.build_s3_endpoint_policy(ACCOUNT, has_internet=True)) is connected


GROUP = "arn:aws:autoscaling:us-west-2:123456789012:autoScalingGroup:6f9e:autoScalingGroupName/eks-train-1"
OWN = {f"aws:ResourceTag/{AUTOSCALER_TAG}/gpumpi-x": "owned"}
OTHERS = {f"aws:ResourceTag/{AUTOSCALER_TAG}/gpumpi-y": "owned"}


@pytest.mark.parametrize(
    ("action", "resource", "context", "allowed"),
    [
        ("autoscaling:SetDesiredCapacity", GROUP, OWN, True),
        ("autoscaling:TerminateInstanceInAutoScalingGroup", GROUP, OWN, True),
        ("autoscaling:SetDesiredCapacity", GROUP, OTHERS, False),
        ("autoscaling:SetDesiredCapacity", GROUP, {}, False),
        ("autoscaling:SetDesiredCapacity", GROUP.replace("us-west-2", "eu-west-1"), OWN, False),
        ("autoscaling:DeleteAutoScalingGroup", GROUP, OWN, False),
        ("autoscaling:DescribeAutoScalingGroups", "*", {}, True),
        ("ec2:DescribeInstanceTypes", "*", {}, True),
        ("ec2:RunInstances", "*", {}, False),
        ("eks:DescribeNodegroup", "arn:aws:eks:us-west-2:123456789012:nodegroup/gpumpi-x/train/1", {}, True),
        ("eks:DescribeNodegroup", "arn:aws:eks:us-west-2:123456789012:nodegroup/gpumpi-y/train/1", {}, False),
    ],
)
def test_autoscaler_can_scale_only_groups_of_its_cluster(
    action: str, resource: str, context: Mapping[str, str], allowed: bool
) -> None:
    assert allows(Request(action, resource, context), IDENTITY["allow_node_group_scaling"]) is allowed
