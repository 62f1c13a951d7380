"""Environment for calls that EKS rejects. One environment per test module is enough, because a rejected call changes
nothing.
"""

from typing import Any

from localcloud.aws.account import ACCOUNT
from testkit.eks_world import World, make_trust_policy

POLICY = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy"
PARAMETER, REQUEST, IN_USE, NOT_FOUND = (
    "InvalidParameterException",
    "InvalidRequestException",
    "ResourceInUseException",
    "ResourceNotFoundException",
)


class Refusing(World):
    """Active clusters `demo` (version 1.34, authentication mode API), `legacy` (authentication mode CONFIG_MAP) and
    `old` (version 1.31), and a node group `workers`.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        ec2 = self.ec2
        self.foreign_vpc = self.create_vpc()
        self.foreign_subnet = self.subnet(0, "b", self.foreign_vpc, "10.9.0.0/24")
        self.same_zone = self.subnet(60, "a")
        self.tiny = [self.subnet(0, zone, cidr=f"10.0.{70 + index}.0/28") for index, zone in enumerate("ab")]
        for subnet in self.tiny:
            ec2.create_network_interface(SubnetId=subnet, SecondaryPrivateIpAddressCount=7)
        self.foreign_group = self.security_group(self.foreign_vpc, "foreign")
        self.bare_role = self.create_role("bare", make_trust_policy("lambda.amazonaws.com"))
        self.cluster(version="1.34", deletionProtection=True, encryptionConfig=[self.build_encryption(self.key())])
        self.cluster("legacy", accessConfig={"authenticationMode": "CONFIG_MAP"})
        self.cluster("old", version="1.31")
        self.user_template = self.template("plain", EbsOptimized=True)
        self.node_group()
        self.node_group("templated", launchTemplate=self.user_template)
        self.node_group("kept", cluster="legacy")
        of_addon = [{"serviceAccount": "aws-node", "roleArn": self.pod_role}]
        self.eks.create_addon(clusterName="demo", addonName="vpc-cni", podIdentityAssociations=of_addon)
        self.eks.create_access_entry(clusterName="demo", principalArn=self.admin_role)
        self.eks.create_pod_identity_association(
            clusterName="demo", namespace="jobs", serviceAccount="mpi", roleArn=self.pod_role
        )
        self._templates = 0

    @staticmethod
    def build_encryption(key: str) -> dict[str, Any]:
        return {"resources": ["secrets"], "provider": {"keyArn": key}}

    def build_cluster_params(self, vpc: dict[str, Any] | None = None, **settings: Any) -> dict[str, Any]:
        """Return CreateCluster parameters for a new cluster."""
        return self.build_cluster_request(settings.pop("name", "new"), vpc, **settings)

    def build_node_group_params(self, **settings: Any) -> dict[str, Any]:
        """Return CreateNodegroup parameters for a new node group."""
        return self.build_node_group_request(settings.pop("name", "new"), **settings)

    def build_params_with_template(self, data: dict[str, Any], **settings: Any) -> dict[str, Any]:
        """Return CreateNodegroup parameters for a new node group with a new launch template."""
        self._templates += 1
        return self.build_node_group_params(launchTemplate=self.template(f"template-{self._templates}", **data), **settings)

    def find_plain_image(self) -> str:
        """Return the id of a public AMI that is not EKS-optimized."""
        name = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64"
        return str(self.client("ssm").get_parameter(Name=name)["Parameter"]["Value"])

    def create_next_version(self, data: dict[str, Any]) -> dict[str, Any]:
        """Create a new version of node group `templated`'s launch template; return the template's id and the version
        number.
        """
        template = self.user_template["id"]
        version = self.ec2.create_launch_template_version(LaunchTemplateId=template, LaunchTemplateData=data)[
            "LaunchTemplateVersion"
        ]
        return {"id": template, "version": str(version["VersionNumber"])}

    def build_block_params(self, data: dict[str, Any], **settings: Any) -> dict[str, Any]:
        """Return CreateNodegroup parameters for a Capacity Block."""
        whole = {
            "InstanceType": "p5.48xlarge",
            "InstanceMarketOptions": {"MarketType": "capacity-block"},
            "CapacityReservationSpecification": {"CapacityReservationTarget": {"CapacityReservationId": "cr-0123456789abcdef0"}},
        }
        chosen = {key: value for key, value in {**whole, **data}.items() if value is not None}
        return self.build_params_with_template(chosen, capacityType="CAPACITY_BLOCK", amiType="AL2023_x86_64_NVIDIA", **settings)


def missing_role_arn() -> str:
    return f"arn:aws:iam::{ACCOUNT}:role/none"


def build_api_reference_url(page: str) -> str:
    """Return the URL of an action or type in EKS's API reference."""
    return f"https://docs.aws.amazon.com/eks/latest/APIReference/API_{page}.html"


def build_user_guide_url(page: str) -> str:
    return f"https://docs.aws.amazon.com/eks/latest/userguide/{page}.html"
