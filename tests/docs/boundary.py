"""The permissions boundary in docs/iam/boundary.json: the most that the roles of any stack need.

A boundary grants nothing. A role can do only what both its policies and its boundary allow:
https://docs.aws.amazon.com/IAM/latest/UserGuide/access_policies_boundaries.html. `tests/program/test_every_stack.py` compares
it with the policies of every role of every stack.
"""

from collections.abc import Mapping
from typing import Any, Final

ACTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "ControlPlane": (  # AmazonEKSClusterPolicy
        *("autoscaling:UpdateAutoScalingGroup", "ec2:AttachVolume", "ec2:AuthorizeSecurityGroupIngress", "ec2:CreateRoute"),
        *("ec2:CreateSecurityGroup", "ec2:CreateTags", "ec2:CreateVolume", "ec2:DeleteRoute", "ec2:DeleteSecurityGroup"),
        *("ec2:DeleteVolume", "ec2:DetachVolume", "ec2:ModifyInstanceAttribute", "ec2:ModifyVolume"),
        *("ec2:RevokeSecurityGroupIngress", "elasticloadbalancing:*", "kms:DescribeKey"),
    ),
    "Network": (  # AmazonEKS_CNI_Policy
        *("ec2:AssignPrivateIpAddresses", "ec2:AttachNetworkInterface", "ec2:CreateNetworkInterface"),
        *("ec2:DeleteNetworkInterface", "ec2:DetachNetworkInterface", "ec2:ModifyNetworkInterfaceAttribute"),
        "ec2:UnassignPrivateIpAddresses",
    ),
    "Nodes": (  # AmazonEKSWorkerNodePolicy, AmazonEC2ContainerRegistryPullOnly, Session Manager
        *("ec2:Describe*", "ec2:GetInstanceTypesFromInstanceRequirements", "ecr:BatchGetImage", "ecr:BatchImportUpstreamImage"),
        *("ecr:GetAuthorizationToken", "ecr:GetDownloadUrlForLayer", "eks-auth:AssumeRoleForPodIdentity"),
        *("eks:DescribeCluster", "eks:DescribeNodegroup", "ssm:UpdateInstanceInformation", "ssmmessages:*"),
    ),
    "Scaling": (  # cluster autoscaler, join service of EC2 clusters
        *("autoscaling:CompleteLifecycleAction", "autoscaling:Describe*", "autoscaling:SetDesiredCapacity"),
        "autoscaling:TerminateInstanceInAutoScalingGroup",
    ),
    "FileSystems": (  # AmazonEFSCSIDriverPolicy, mounts
        *("elasticfilesystem:ClientMount", "elasticfilesystem:ClientWrite", "elasticfilesystem:CreateAccessPoint"),
        *("elasticfilesystem:DeleteAccessPoint", "elasticfilesystem:Describe*", "elasticfilesystem:TagResource"),
    ),
    "Data": (  # public keys, folders and buckets of jobs
        *("s3:AbortMultipartUpload", "s3:DeleteObject", "s3:GetObject", "s3:ListBucket", "s3:ListMultipartUploadParts"),
        "s3:PutObject",
    ),
    "Logs": ("logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"),
}
"""Maps each statement to its actions. None of them changes an identity or a policy."""


def make_statements() -> list[dict[str, Any]]:
    linked = {"StringEquals": {"iam:AWSServiceName": "elasticloadbalancing.amazonaws.com"}}
    statements = [{"Sid": sid, "Effect": "Allow", "Action": list(names), "Resource": "*"} for sid, names in ACTIONS.items()]
    role = {"Sid": "LoadBalancerRole", "Effect": "Allow", "Action": ["iam:CreateServiceLinkedRole"], "Resource": "*"}
    return [*statements, {**role, "Condition": linked}]
