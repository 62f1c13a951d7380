"""Policies of VPC endpoints as pure functions. The policies only restrict: callers also need their own permissions."""

from typing import Final

from infra.components.iam import Account, Policy, build_policy, build_statement

READ: Final = ("s3:GetBucketLocation", "s3:GetObject", "s3:GetObjectVersion", "s3:ListBucket")


def build_s3_endpoint_policy(account: Account, *, has_internet: bool) -> Policy:
    """Policy of the S3 gateway endpoint: principals of this account may call S3; other callers may only read.

    Jobs read and write the buckets that their own roles may use, in any account. Nobody can upload through the endpoint
    with credentials of another account.

    In a private network, other callers may read only AWS's buckets. With a route to the internet, other callers may
    read any bucket: registry.k8s.io redirects to S3 buckets that change without notice
    (https://github.com/kubernetes/registry.k8s.io#stability), and other registries and public data sets do the same.
    """
    readable = ["*"] if has_internet else list_aws_bucket_arns(account)
    return build_policy(
        build_statement(
            "OwnPrincipals", "s3:*", "*", principal="*", condition={"StringEquals": {"aws:PrincipalAccount": account.id}}
        ),
        build_statement("Reads", list(READ), readable, principal="*"),
    )


def list_aws_bucket_arns(account: Account) -> list[str]:
    """Return ARN patterns for the objects in AWS's buckets that nodes read without credentials of this account.

    Sources: image layers https://docs.aws.amazon.com/AmazonECR/latest/userguide/vpc-endpoints.html, packages
    https://docs.aws.amazon.com/linux/al2023/ug/managing-repos-os-updates.html, SSM Agent
    https://docs.aws.amazon.com/systems-manager/latest/userguide/ssm-agent-minimum-s3-permissions.html. NOT VERIFIED on
    AWS (2026-11-23).
    """
    region = account.region
    names = (
        f"prod-{region}-starport-layer-bucket",
        f"al2023-repos-{region}-de612dc2",
        f"amazon-ssm-{region}",
        f"amazon-ssm-packages-{region}",
        f"aws-ssm-{region}",
        f"aws-ssm-document-attachments-{region}",
        f"patch-baseline-snapshot-{region}",
        f"{region}-birdwatcher-prod",
    )
    return [f"arn:{account.partition}:s3:::{name}/*" for name in names]
