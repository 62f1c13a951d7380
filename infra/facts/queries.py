"""Queries of AWS at plan time: the operations that each query calls, and how messages name what could not be read."""

from enum import Enum


class Query(Enum):
    """A query of `gather_facts`. Each value contains what messages call the queried data, and the operations of the query."""

    INSTANCE_TYPES = "instance types", "ec2:DescribeInstanceTypes", "ec2:DescribeInstanceTypeOfferings"
    ZONES = "zones", "ec2:DescribeAvailabilityZones"
    OWN_NETWORK = "the stack's own network", "ec2:DescribeVpcs", "ec2:DescribeSubnets"
    EKS_CLUSTER = (
        "the existing cluster",
        *("eks:DescribeCluster", "eks:ListNodegroups", "eks:DescribeNodegroup", "eks:ListAddons", "eks:DescribeAddon"),
        *("ec2:DescribeSubnets", "ec2:DescribeLaunchTemplateVersions"),
    )
    WORKERS = (
        "the existing workers",
        *("autoscaling:DescribeAutoScalingGroups", "autoscaling:DescribeLifecycleHooks", "ec2:DescribeLaunchTemplateVersions"),
    )
    CALLER = "the caller", "sts:GetCallerIdentity"
    CALLER_ROLE = "the IAM role behind the caller", "iam:GetRole"
    ADMINS = "cluster admins", "iam:GetRole", "iam:GetUser"
    VCPU_QUOTAS = "vCPU quotas", "servicequotas:GetServiceQuota"
    VCPUS_IN_USE = (
        "running instances",
        *("ec2:DescribeInstances", "ec2:DescribeCapacityReservations", "ec2:DescribeInstanceTypes"),
    )
    NODE_GROUP_QUOTA = "quota of node groups per cluster", "servicequotas:GetServiceQuota"
    KUBERNETES_VERSIONS = "Kubernetes versions", "eks:DescribeClusterVersions"
    ADDON_VERSIONS = "add-on versions", "eks:DescribeAddonVersions"
    CONTROL_PLANE_LOGS = "control plane logs", "logs:DescribeLogGroups"
    AMI = "the AMI of the nodes", "ec2:DescribeImages"
    IMAGES = "AMIs of pools", "ec2:DescribeImages"
    VPC = "the existing VPC", "ec2:DescribeVpcs", "ec2:DescribeVpcAttribute"
    SUBNETS = "existing subnets", "ec2:DescribeSubnets", "ec2:DescribeRouteTables"
    ENDPOINTS = "VPC endpoints of the existing VPC", "ec2:DescribeVpcEndpoints"
    ENDPOINT_SERVICES = "services that offer VPC endpoints", "ec2:DescribeVpcEndpointServices"
    PLACEMENT_GROUPS = "placement groups", "ec2:DescribePlacementGroups"
    RESERVATIONS = "capacity reservations", "ec2:DescribeCapacityReservations"
    FILE_SYSTEM = "the existing file system", "elasticfilesystem:DescribeFileSystems", "elasticfilesystem:DescribeMountTargets"
    MOUNT_TARGETS = (
        "security groups of mount targets",
        *("elasticfilesystem:DescribeMountTargets", "elasticfilesystem:DescribeMountTargetSecurityGroups"),
        "ec2:DescribeSecurityGroups",
    )
    LUSTRE = (
        "FSx for Lustre",
        *("fsx:DescribeFileSystems", "ec2:DescribeSubnets", "ec2:DescribeNetworkInterfaces", "ec2:DescribeSecurityGroups"),
    )
    LUSTRE_KEY = "key of FSx", "kms:DescribeKey"
    BUCKET = "bucket", "s3:HeadBucket"
    EBS_KEY = (
        "whether Auto Scaling may use the default key of EBS",
        *("ec2:GetEbsDefaultKmsKeyId", "kms:DescribeKey", "kms:GetKeyPolicy", "kms:ListGrants"),
    )
    PRICES = "prices", "pricing:GetProducts", "ec2:DescribeSpotPriceHistory"
    MANIFESTS = ("upstream manifests",)
    """Queries no AWS: downloads from GitHub or a mirror."""

    def __init__(self, subject: str, *operations: str) -> None:
        self.subject = subject
        self.operations = operations
