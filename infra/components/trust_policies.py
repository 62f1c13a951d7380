"""Trust policies of roles as pure functions: who may assume a role, and on whose behalf.

AWS services act on behalf of many accounts. If a service reports for which account it acts, the trust policy requires
that this is the stack's account:
https://docs.aws.amazon.com/IAM/latest/UserGuide/confused-deputy.html#cross-service-confused-deputy-prevention
"""

from infra.components.iam import Account, Policy, build_policy, build_statement


def build_instance_trust_policy() -> Policy:
    """Trust policy of a role for EC2 instances.

    The policy needs no condition on the source account: EC2 reports no source account, and only principals with
    iam:PassRole in this account can attach the role to an instance.
    """
    return build_policy(build_statement("Service", "sts:AssumeRole", principal={"Service": "ec2.amazonaws.com"}))


def build_cluster_trust_policy(account: Account, cluster: str) -> Policy:
    """Trust policy of a cluster's role, which EKS may assume only for one cluster of this account.

    https://docs.aws.amazon.com/eks/latest/userguide/cross-service-confused-deputy-prevention.html
    """
    return _build_service_trust_policy("Service", "eks.amazonaws.com", account, account.arn("eks", f"cluster/{cluster}"))


def build_flow_log_trust_policy(account: Account) -> Policy:
    """Trust policy of the role that delivers VPC flow logs, for flow logs of this account and Region only.

    https://docs.aws.amazon.com/vpc/latest/userguide/flow-logs-iam-role.html
    """
    return _build_service_trust_policy("FlowLogs", "vpc-flow-logs.amazonaws.com", account, account.arn("ec2", "vpc-flow-log/*"))


def _build_service_trust_policy(sid: str, service: str, account: Account, source: str) -> Policy:
    """Trust policy of a role that a service may assume only on behalf of this account's resources named by `source`."""
    return build_policy(
        build_statement(
            sid,
            "sts:AssumeRole",
            principal={"Service": service},
            condition={"StringEquals": {"aws:SourceAccount": account.id}, "ArnLike": {"aws:SourceArn": source}},
        )
    )


def build_pod_trust_policy(account: Account, cluster: str, namespace: str, service_account: str) -> Policy:
    """Trust policy of a role for the pods of one service account in one cluster (EKS Pod Identity).

    The session tags restrict the role to the cluster:
    https://docs.aws.amazon.com/eks/latest/userguide/pod-id-role.html. A condition on aws:SourceArn would be risky: AWS
    does not document its value for Pod Identity, and guessed values have locked pods out
    (https://github.com/awslabs/mountpoint-s3-csi-driver/issues/781, which also shows that aws:SourceAccount works).
    """
    return build_policy(
        build_statement(
            "PodIdentity",
            ["sts:AssumeRole", "sts:TagSession"],
            principal={"Service": "pods.eks.amazonaws.com"},
            condition={
                "StringEquals": {
                    "aws:SourceAccount": account.id,
                    "aws:RequestTag/eks-cluster-arn": account.arn("eks", f"cluster/{cluster}"),
                    "aws:RequestTag/kubernetes-namespace": namespace,
                    "aws:RequestTag/kubernetes-service-account": service_account,
                }
            },
        )
    )
