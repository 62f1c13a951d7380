"""CreateCluster calls that EKS rejects."""

from typing import Any

import pytest

from localcloud.aws.account import ACCOUNT
from tests.local_aws.eks_refusing import (
    IN_USE,
    PARAMETER,
    Refusing,
    build_api_reference_url,
    build_user_guide_url,
)
from tests.local_aws.refusals import Refusal

REFUSALS = [
    Refusal(
        "a name with a slash",
        "create_cluster",
        lambda world: world.build_cluster_params(name="a/b"),
        PARAMETER,
        build_api_reference_url("CreateCluster"),
        "",
    ),
    Refusal(
        "a name over 100 characters",
        "create_cluster",
        lambda world: world.build_cluster_params(name="a" * 101),
        PARAMETER,
        build_api_reference_url("CreateCluster"),
        "",
    ),
    Refusal(
        "a name in use",
        "create_cluster",
        lambda world: world.build_cluster_params(name="demo"),
        IN_USE,
        build_api_reference_url("CreateCluster"),
        "already exists with name: demo",
    ),
    Refusal(
        "a version that is not offered",
        "create_cluster",
        lambda world: world.build_cluster_params(version="1.99"),
        PARAMETER,
        build_user_guide_url("kubernetes-versions"),
        "unsupported",
    ),
    Refusal(
        "a version whose support has ended",
        "create_cluster",
        lambda world: world.build_cluster_params(version="1.30"),
        PARAMETER,
        build_user_guide_url("kubernetes-versions"),
        "unsupported",
    ),
    Refusal(
        "a version with a patch number",
        "create_cluster",
        lambda world: world.build_cluster_params(version="1.35.6"),
        PARAMETER,
        build_user_guide_url("kubernetes-versions"),
        "unsupported",
    ),
    Refusal(
        "a nonexistent role",
        "create_cluster",
        lambda world: world.build_cluster_params(roleArn=f"arn:aws:iam::{ACCOUNT}:role/none"),
        PARAMETER,
        build_user_guide_url("cluster-iam-role"),
        "could not be assumed because it does not exist or the trusted entity is not correct",
    ),
    Refusal(
        "a role that does not trust EKS",
        "create_cluster",
        lambda world: world.build_cluster_params(roleArn=world.node_role),
        PARAMETER,
        build_user_guide_url("cluster-iam-role"),
        "trusted",
    ),
    Refusal(
        "a nonexistent subnet",
        "create_cluster",
        lambda world: world.build_cluster_params({"subnetIds": [*world.subnets, "subnet-0"]}),
        PARAMETER,
        build_user_guide_url("network-reqs"),
        "subnet-0",
    ),
    Refusal(
        "subnets in only one zone",
        "create_cluster",
        lambda world: world.build_cluster_params({"subnetIds": [world.subnets[0], world.same_zone]}),
        PARAMETER,
        build_user_guide_url("network-reqs"),
        "Subnets specified must be in at least two different AZs",
    ),
    Refusal(
        "subnets of two VPCs",
        "create_cluster",
        lambda world: world.build_cluster_params({"subnetIds": [world.subnets[0], world.foreign_subnet]}),
        PARAMETER,
        build_user_guide_url("network-reqs"),
        "same VPC",
    ),
    Refusal(
        "the same subnet twice",
        "create_cluster",
        lambda world: world.build_cluster_params({"subnetIds": world.subnets[:1] * 2}),
        PARAMETER,
        build_api_reference_url("VpcConfigRequest"),
        "",
    ),
    Refusal(
        "subnets without free addresses",
        "create_cluster",
        lambda world: world.build_cluster_params({"subnetIds": world.tiny}),
        PARAMETER,
        build_user_guide_url("network-reqs"),
        "Atleast one subnet in each AZ should have 5 free IPs",
    ),
    Refusal(
        "a nonexistent security group",
        "create_cluster",
        lambda world: world.build_cluster_params({"securityGroupIds": ["sg-0"]}),
        PARAMETER,
        build_api_reference_url("VpcConfigRequest"),
        "sg-0",
    ),
    Refusal(
        "a security group of another VPC",
        "create_cluster",
        lambda world: world.build_cluster_params({"securityGroupIds": [world.foreign_group]}),
        PARAMETER,
        build_api_reference_url("VpcConfigRequest"),
        "are not in the same VPC as the subnets",
    ),
    Refusal(
        "neither a public nor a private endpoint",
        "create_cluster",
        lambda world: world.build_cluster_params({"endpointPublicAccess": False, "endpointPrivateAccess": False}),
        PARAMETER,
        build_user_guide_url("cluster-endpoint"),
        "Private and public endpoint access cannot be false",
    ),
    Refusal(
        "an invalid public CIDR",
        "create_cluster",
        lambda world: world.build_cluster_params({"publicAccessCidrs": ["300.0.0.0/8"]}),
        PARAMETER,
        build_api_reference_url("VpcConfigRequest"),
        "300.0.0.0/8",
    ),
    Refusal(
        "a public CIDR with host bits",
        "create_cluster",
        lambda world: world.build_cluster_params({"publicAccessCidrs": ["203.0.113.7/24"]}),
        PARAMETER,
        build_api_reference_url("VpcConfigRequest"),
        "203.0.113.7/24",
    ),
    *(
        Refusal(
            f"{cidr} as a public CIDR",
            "create_cluster",
            lambda world, cidr=cidr: world.build_cluster_params({"publicAccessCidrs": ["5.10.20.0/24", cidr]}),
            PARAMETER,
            build_user_guide_url("config-cluster-endpoint"),
            f"The following CIDRs are not allowed in publicAccessCidrs: [{cidr}]",
        )
        for cidr in (
            "0.0.0.0/32",
            "10.1.0.0/16",
            "100.100.0.0/16",
            "127.0.0.1/32",
            "169.254.0.0/24",
            "192.0.0.0/24",
            "198.18.0.0/16",
        )
    ),
    *(
        Refusal(
            f"{cidr} as a public CIDR",
            "create_cluster",
            lambda world, cidr=cidr: world.build_cluster_params({"publicAccessCidrs": [cidr]}),
            PARAMETER,
            build_user_guide_url("config-cluster-endpoint"),
            f"The following CIDRs are not allowed in publicAccessCidrs: [{cidr}]",
        )
        for cidr in ("224.0.0.1/32", "240.0.0.0/8", "255.255.255.255/32", "126.0.0.0/7")
    ),
    Refusal(
        "an IPv6 CIDR for a cluster with IPv4",
        "create_cluster",
        lambda world: world.build_cluster_params({"publicAccessCidrs": ["2001:db8::/32"]}),
        PARAMETER,
        build_api_reference_url("VpcConfigRequest"),
        "The following CIDRs are invalid in publicAccessCidrs: [2001:db8::/32]",
    ),
    Refusal(
        "a private range as a public CIDR",
        "create_cluster",
        lambda world: world.build_cluster_params({"publicAccessCidrs": ["192.168.0.0/16"]}),
        PARAMETER,
        build_user_guide_url("cluster-endpoint"),
        "The following CIDRs are not allowed in publicAccessCidrs: [192.168.0.0/16]",
    ),
    Refusal(
        "more than 40 public CIDRs",
        "create_cluster",
        lambda world: world.build_cluster_params({"publicAccessCidrs": [f"203.0.{index}.0/24" for index in range(41)]}),
        PARAMETER,
        build_user_guide_url("service-quotas"),
        "40",
    ),
    Refusal(
        "a service CIDR inside the VPC",
        "create_cluster",
        lambda world: world.build_cluster_params(kubernetesNetworkConfig={"serviceIpv4Cidr": "10.0.128.0/20"}),
        PARAMETER,
        build_api_reference_url("KubernetesNetworkConfigRequest"),
        "overlaps",
    ),
    Refusal(
        "a public service CIDR",
        "create_cluster",
        lambda world: world.build_cluster_params(kubernetesNetworkConfig={"serviceIpv4Cidr": "8.8.0.0/16"}),
        PARAMETER,
        build_api_reference_url("KubernetesNetworkConfigRequest"),
        "must be within",
    ),
    Refusal(
        "a service CIDR that is too small",
        "create_cluster",
        lambda world: world.build_cluster_params(kubernetesNetworkConfig={"serviceIpv4Cidr": "172.16.0.0/25"}),
        PARAMETER,
        build_api_reference_url("KubernetesNetworkConfigRequest"),
        "between /24 and /12",
    ),
    Refusal(
        "an unknown log type",
        "create_cluster",
        lambda world: world.build_cluster_params(logging={"clusterLogging": [{"types": ["kubelet"], "enabled": True}]}),
        PARAMETER,
        build_api_reference_url("LogSetup"),
        "kubelet",
    ),
    Refusal(
        "authentication mode CONFIG_MAP without a cluster admin",
        "create_cluster",
        lambda world: world.build_cluster_params(
            accessConfig={"authenticationMode": "CONFIG_MAP", "bootstrapClusterCreatorAdminPermissions": False}
        ),
        PARAMETER,
        build_api_reference_url("CreateAccessConfigRequest"),
        "bootstrapClusterCreatorAdminPermissions must be true",
    ),
    Refusal(
        "an unknown authentication mode",
        "create_cluster",
        lambda world: world.build_cluster_params(accessConfig={"authenticationMode": "IAM"}),
        PARAMETER,
        build_api_reference_url("CreateAccessConfigRequest"),
        "IAM",
    ),
    Refusal(
        "standard support for a version in extended support",
        "create_cluster",
        lambda world: world.build_cluster_params(version="1.33", upgradePolicy={"supportType": "STANDARD"}),
        PARAMETER,
        build_user_guide_url("view-upgrade-policy"),
        "extended support",
    ),
    Refusal(
        "a nonexistent key",
        "create_cluster",
        lambda world: world.build_cluster_params(encryptionConfig=[world.build_encryption("arn:aws:kms:us-west-2:1:key/0")]),
        PARAMETER,
        build_api_reference_url("Provider"),
        "KMS key",
    ),
    Refusal(
        "an asymmetric key",
        "create_cluster",
        lambda world: world.build_cluster_params(
            encryptionConfig=[world.build_encryption(world.key(KeySpec="RSA_2048", KeyUsage="SIGN_VERIFY"))]
        ),
        PARAMETER,
        build_api_reference_url("Provider"),
        "symmetric",
    ),
    Refusal(
        "encryption of resources other than secrets",
        "create_cluster",
        lambda world: world.build_cluster_params(encryptionConfig=[{"resources": ["pods"], "provider": {"keyArn": world.key()}}]),
        PARAMETER,
        build_api_reference_url("EncryptionConfig"),
        "secrets",
    ),
    Refusal(
        "a reserved tag",
        "create_cluster",
        lambda world: world.build_cluster_params(tags={"aws:owner": "me"}),
        PARAMETER,
        build_user_guide_url("eks-using-tags"),
        "aws:",
    ),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_eks_rejects_an_invalid_cluster_creation(shared_eks_world: Refusing, refusal: Refusal) -> None:
    before = shared_eks_world.eks.list_clusters()["clusters"]
    refusal.check(shared_eks_world.eks, world=shared_eks_world)
    assert shared_eks_world.eks.list_clusters()["clusters"] == before
    groups = shared_eks_world.ec2.describe_security_groups(Filters=[{"Name": "tag:aws:eks:cluster-name", "Values": ["new"]}])
    assert groups["SecurityGroups"] == []


@pytest.mark.parametrize(
    "settings",
    [
        {"computeConfig": {"enabled": True}},
        {"storageConfig": {"blockStorage": {"enabled": True}}},
        {"zonalShiftConfig": {"enabled": True}},
        {"controlPlaneScalingConfig": {"tier": "tier-xl"}},
        {"remoteNetworkConfig": {"remoteNodeNetworks": [{"cidrs": ["10.80.0.0/16"]}]}},
        {"kubernetesNetworkConfig": {"ipFamily": "ipv6"}},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_features_that_are_not_emulated_are_rejected_instead_of_ignored(
    shared_eks_world: Refusing, settings: dict[str, Any]
) -> None:
    request = shared_eks_world.build_cluster_params(**settings)
    refusal = Refusal("no such thing here", "create_cluster", request, "NotImplementedInLocalCloud", "docs/concepts/local-aws.md")
    refusal.check(shared_eks_world.eks)
