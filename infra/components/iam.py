"""IAM, bucket, file system and key policies as pure functions, with least privilege. Trust policies are in
`trust_policies.py`, endpoint policies in `endpoint_policies.py`.

Policies that AWS prescribes link to its documentation. `tests/pure/test_iam.py` evaluates every policy.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from infra.naming import WORKDIR_KEYS

Statement: TypeAlias = Mapping[str, object]
Policy: TypeAlias = Mapping[str, object]


@dataclass(frozen=True)
class Account:
    """AWS account, Region and partition of a stack."""

    id: str
    region: str
    partition: str

    def arn(self, service: str, resource: str) -> str:
        return f"arn:{self.partition}:{service}:{self.region}:{self.id}:{resource}"

    @property
    def root(self) -> str:
        """ARN of the account root. A key policy with this principal lets the account's IAM policies grant access to the
        key."""
        return f"arn:{self.partition}:iam::{self.id}:root"

    def managed_policy_arn(self, name: str) -> str:
        """Return the ARN of an AWS managed policy."""
        return f"arn:{self.partition}:iam::aws:policy/{name}"


NODE_UPLOADS: Final = ("notice.json", "boot.log", "waiting.txt")
"""Objects that a node's join service (amis/join) writes."""

NODE_KEYS: Final = "nodes"
JOB_KEYS: Final = "jobs"
"""Prefixes in the key bucket: public SSH keys of nodes and of job pods."""

_KEY_ADMINISTRATION: Final = (
    "kms:CancelKeyDeletion",
    "kms:CreateAlias",
    "kms:DeleteAlias",
    "kms:DescribeKey",
    "kms:DisableKey",
    "kms:DisableKeyRotation",
    "kms:EnableKey",
    "kms:EnableKeyRotation",
    "kms:GetKeyPolicy",
    "kms:GetKeyRotationStatus",
    "kms:ListGrants",
    "kms:ListKeyPolicies",
    "kms:ListKeyRotations",
    "kms:ListResourceTags",
    "kms:PutKeyPolicy",
    "kms:RevokeGrant",
    "kms:ScheduleKeyDeletion",
    "kms:TagResource",
    "kms:UntagResource",
    "kms:UpdateAlias",
    "kms:UpdateKeyDescription",
)
"""Actions that manage a key. None of them decrypts data."""


def to_json(policy: Policy) -> str:
    return json.dumps(policy)


def build_policy(*statements: Statement) -> Policy:
    return {"Version": "2012-10-17", "Statement": list(statements)}


def build_statement(
    sid: str,
    action: str | Sequence[str],
    resource: str | Sequence[str] | None = None,
    *,
    principal: str | Mapping[str, str] | None = None,
    condition: Mapping[str, Mapping[str, object]] | None = None,
    effect: Literal["Allow", "Deny"] = "Allow",
) -> Statement:
    """Return a statement. Identity policies have no principal, and trust policies have no resource."""
    elements = {"Principal": principal, "Action": action, "Resource": resource, "Condition": condition}
    return {"Sid": sid, "Effect": effect, **{name: value for name, value in elements.items() if value is not None}}


# --- nodes -------------------------------------------------------------------------------------------------------------


def allow_session_manager() -> Policy:
    """Allow a shell and SSH through Session Manager, without an open port or a key pair.

    AWS's managed policy AmazonSSMManagedInstanceCore also allows reading every parameter of the account:
    https://docs.aws.amazon.com/systems-manager/latest/userguide/getting-started-create-iam-instance-profile.html
    """
    actions = [
        "ssm:UpdateInstanceInformation",
        "ssmmessages:CreateControlChannel",
        "ssmmessages:CreateDataChannel",
        "ssmmessages:OpenControlChannel",
        "ssmmessages:OpenDataChannel",
    ]
    return build_policy(build_statement("ConnectAgent", actions, "*"))


# --- logs --------------------------------------------------------------------------------------------------------------


def allow_flow_log_delivery(log_group_arn: str) -> Policy:
    """Allow writing to one log group. Omits logs:CreateLogGroup, so that a deleted group stays deleted."""
    return build_policy(
        build_statement(
            "Deliver",
            ["logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"],
            [log_group_arn, f"{log_group_arn}:*"],
        )
    )


def allow_job_log_writes(log_group_arn: str) -> Policy:
    """Allow a job pod to create and write log streams whose names start with its namespace and end with its pod name.

    Pod Identity sets both names as session tags: https://docs.aws.amazon.com/eks/latest/userguide/pod-id-abac.html
    """
    stream = "${aws:PrincipalTag/kubernetes-namespace}/*/${aws:PrincipalTag/kubernetes-pod-name}"
    return build_policy(
        build_statement("WriteOwn", ["logs:CreateLogStream", "logs:PutLogEvents"], f"{log_group_arn}:log-stream:{stream}")
    )


# --- keys --------------------------------------------------------------------------------------------------------------


def _allow_key_administration(account: Account) -> Statement:
    """Allow the account's administrators to manage the key. In a key policy, `*` means this key.

    https://docs.aws.amazon.com/kms/latest/developerguide/key-policy-default.html
    """
    return build_statement("Administration", list(_KEY_ADMINISTRATION), "*", principal={"AWS": account.root})


def build_secrets_key_policy(account: Account) -> Policy:
    """Key policy for Kubernetes secrets. The principal that creates the cluster grants EKS permission to use the key.

    EKS does not support a condition on that grant: https://docs.aws.amazon.com/eks/latest/userguide/enable-kms.html
    """
    return build_policy(
        _allow_key_administration(account),
        build_statement("GrantToEks", ["kms:CreateGrant", "kms:DescribeKey"], "*", principal={"AWS": account.root}),
    )


def build_logs_key_policy(account: Account, log_groups: Sequence[str]) -> Policy:
    """Key policy for log groups: only CloudWatch Logs may use the key, and only for the named groups.

    https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/encrypt-log-data-kms.html
    """
    groups = [account.arn("logs", f"log-group:{name}") for name in log_groups]
    return build_policy(
        _allow_key_administration(account),
        build_statement(
            "CloudWatchLogs",
            ["kms:Decrypt*", "kms:Describe*", "kms:Encrypt*", "kms:GenerateDataKey*", "kms:ReEncrypt*"],
            "*",
            principal={"Service": f"logs.{account.region}.amazonaws.com"},
            condition={"ArnEquals": {"kms:EncryptionContext:aws:logs:arn": groups}},
        ),
    )


def build_file_system_key_policy(account: Account, service: str = "elasticfilesystem") -> Policy:
    """Key policy for a file system: the account's principals may use the key only through `service` (EFS or FSx).

    https://docs.aws.amazon.com/efs/latest/ug/EFSKMS.html,
    https://docs.aws.amazon.com/fsx/latest/LustreGuide/encryption-at-rest.html
    """
    names = {"elasticfilesystem": "ThroughEfs", "fsx": "ThroughFsx"}
    return build_policy(
        _allow_key_administration(account),
        build_statement(
            names[service],
            ["kms:CreateGrant", "kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKeyWithoutPlaintext"],
            "*",
            principal={"AWS": account.root},
            condition={
                "StringEquals": {
                    "kms:CallerAccount": account.id,
                    "kms:ViaService": f"{service}.{account.region}.amazonaws.com",
                }
            },
        ),
    )


# --- key bucket --------------------------------------------------------------------------------------------------------


def build_tls_only_bucket_policy(bucket_arn: str) -> Policy:
    """Bucket policy that denies requests without TLS. IAM roles grant access to the bucket."""
    return build_policy(
        build_statement(
            "TlsOnly",
            "s3:*",
            [bucket_arn, f"{bucket_arn}/*"],
            principal="*",
            condition={"Bool": {"aws:SecureTransport": "false"}},
            effect="Deny",
        )
    )


def allow_node_key_exchange(bucket_arn: str) -> Policy:
    """Allow a node to write its public key under its own identity (role ID and instance ID) and to read the keys of
    other nodes. Other nodes list all objects, so a node may write only a few."""
    own = [f"{NODE_KEYS}/${{aws:userid}}/{name}" for name in NODE_UPLOADS]
    return build_policy(*_build_key_exchange_statements(bucket_arn, NODE_KEYS, own=own))


def allow_job_key_exchange(bucket_arn: str) -> Policy:
    """Allow a job pod to write its public key under its own name, and to read the keys of its namespace and the folders
    that `submit` sent to its namespace.

    Pod Identity sets both names as session tags: https://docs.aws.amazon.com/eks/latest/userguide/pod-id-abac.html
    """
    tag = "${aws:PrincipalTag/kubernetes-namespace}"
    namespace = f"{JOB_KEYS}/{tag}"
    own = f"{namespace}/${{aws:PrincipalTag/kubernetes-pod-name}}/*"
    exchange = _build_key_exchange_statements(bucket_arn, namespace, own=[own])
    folders = f"{bucket_arn}/{WORKDIR_KEYS}/{tag}/*"
    return build_policy(*exchange, build_statement("ReadWorkdirs", "s3:GetObject", folders))


def _build_key_exchange_statements(bucket_arn: str, shared: str, *, own: Sequence[str]) -> tuple[Statement, ...]:
    return (
        build_statement("WriteOwn", "s3:PutObject", [f"{bucket_arn}/{key}" for key in own]),
        build_statement("ReadAll", "s3:GetObject", f"{bucket_arn}/{shared}/*"),
        build_statement("List", "s3:ListBucket", bucket_arn, condition={"StringLike": {"s3:prefix": f"{shared}/*"}}),
    )


# --- buckets of jobs ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BucketPath:
    """An object or folder in a bucket, or the whole bucket if the path is empty."""

    bucket: str
    path: str
    writes: bool

    @property
    def keys(self) -> list[str]:
        """Patterns of the object keys: the path itself and everything below it."""
        path = self.path.strip("/")
        return [path, f"{path}/*"] if path else ["*"]


_READ_OBJECTS: Final = ("s3:GetObject",)
_WRITE_OBJECTS: Final = (
    *("s3:PutObject", "s3:DeleteObject"),
    *("s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"),  # multipart uploads of large objects, such as checkpoints
)


def allow_bucket_access(account: Account, paths: Sequence[BucketPath]) -> Policy:
    """Allow job pods to list and read these paths, and to write to the paths for which `writes` is set.

    https://docs.aws.amazon.com/AmazonS3/latest/userguide/example-policies-s3.html
    """
    statements: list[Statement] = []
    for number, path in enumerate(paths):
        bucket = f"arn:{account.partition}:s3:::{path.bucket}"
        actions = [*_READ_OBJECTS, *(_WRITE_OBJECTS if path.writes else ())]
        use = build_statement(f"Use{number}", actions, [f"{bucket}/{key}" for key in path.keys])
        prefixes = {"StringLike": {"s3:prefix": path.keys}} if path.keys != ["*"] else None
        statements += [use, build_statement(f"List{number}", "s3:ListBucket", bucket, condition=prefixes)]
    return build_policy(*statements)


# --- EC2 clusters -------------------------------------------------------------------------------------------------------


def allow_member_lookup() -> Policy:
    """Allow looking up which instances belong to the cluster. Nodes trust only AWS's list, not each other."""
    actions = ["autoscaling:DescribeAutoScalingGroups", "autoscaling:DescribeAutoScalingInstances", "ec2:DescribeInstances"]
    return build_policy(build_statement("FindMembers", actions, "*"))


def allow_join_completion(account: Account, group: str) -> Policy:
    """Allow completing a worker's lifecycle action in this group after the worker has joined or failed to join.

    https://docs.aws.amazon.com/autoscaling/ec2/userguide/lifecycle-hooks.html
    """
    return build_policy(
        build_statement(
            "CompleteJoin",
            "autoscaling:CompleteLifecycleAction",
            account.arn("autoscaling", f"autoScalingGroup:*:autoScalingGroupName/{group}"),
        )
    )


def allow_mount_by_access_point(account: Account, file_system_id: str, access_point_id: str) -> Policy:
    """Allow mounting the file system, and writing to it, only through one access point.

    https://docs.aws.amazon.com/efs/latest/ug/iam-access-control-nfs-efs.html
    """
    access_point = account.arn("elasticfilesystem", f"access-point/{access_point_id}")
    return build_policy(
        build_statement(
            "MountThroughAccessPoint",
            ["elasticfilesystem:ClientMount", "elasticfilesystem:ClientWrite"],
            account.arn("elasticfilesystem", f"file-system/{file_system_id}"),
            condition={"StringEquals": {"elasticfilesystem:AccessPointArn": access_point}},
        )
    )


# --- shared storage ----------------------------------------------------------------------------------------------------


def build_file_system_policy(file_system_arn: str) -> Policy:
    """Allow clients in the VPC to mount the file system and write to it, only through a mount target and with TLS. Root
    on a client is not root in the file system.

    https://docs.aws.amazon.com/efs/latest/ug/iam-access-control-nfs-efs.html
    """
    return build_policy(
        build_statement(
            "ThroughMountTargets",
            ["elasticfilesystem:ClientMount", "elasticfilesystem:ClientWrite"],
            file_system_arn,
            principal={"AWS": "*"},
            condition={"Bool": {"elasticfilesystem:AccessedViaMountTarget": "true"}},
        ),
        build_statement(
            "TlsOnly",
            "*",
            file_system_arn,
            principal={"AWS": "*"},
            condition={"Bool": {"aws:SecureTransport": "false"}},
            effect="Deny",
        ),
    )


# --- cluster autoscaler ------------------------------------------------------------------------------------------------


def allow_node_group_scaling(account: Account, cluster: str, autoscaler_tag: str) -> Policy:
    """Allow resizing this cluster's node groups, identified by their tag, and reading the data for scaling decisions.

    https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/cloudprovider/aws/README.md
    """
    return build_policy(
        build_statement(
            "Read",
            [
                "autoscaling:DescribeAutoScalingGroups",
                "autoscaling:DescribeAutoScalingInstances",
                "autoscaling:DescribeLaunchConfigurations",
                "autoscaling:DescribeScalingActivities",
                "autoscaling:DescribeTags",
                "ec2:DescribeImages",
                "ec2:DescribeInstanceTypes",
                "ec2:DescribeLaunchTemplateVersions",
                "ec2:GetInstanceTypesFromInstanceRequirements",
            ],
            "*",
        ),
        build_statement("ReadNodeGroups", "eks:DescribeNodegroup", account.arn("eks", f"nodegroup/{cluster}/*")),
        build_statement(
            "Scale",
            ["autoscaling:SetDesiredCapacity", "autoscaling:TerminateInstanceInAutoScalingGroup"],
            account.arn("autoscaling", "autoScalingGroup:*:autoScalingGroupName/*"),
            condition={"StringEquals": {f"aws:ResourceTag/{autoscaler_tag}/{cluster}": "owned"}},
        ),
    )
