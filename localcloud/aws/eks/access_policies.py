"""Access policies predefined by EKS: https://docs.aws.amazon.com/eks/latest/userguide/access-policy-permissions.html"""

from localcloud.aws.call import Call
from localcloud.aws.eks.state import Record, build_page
from localcloud.aws.patching import operation

PREFIX = "arn:aws:eks::aws:cluster-access-policy/"
CLUSTER_ADMIN = PREFIX + "AmazonEKSClusterAdminPolicy"
AUTO_NODE = PREFIX + "AmazonEKSAutoNodePolicy"

NAMES = (
    "AmazonEKSAdminPolicy",
    "AmazonEKSAdminViewPolicy",
    "AmazonEKSAutoNodePolicy",
    "AmazonEKSBlockStorageClusterPolicy",
    "AmazonEKSBlockStoragePolicy",
    "AmazonEKSClusterAdminPolicy",
    "AmazonEKSClusterInsightsPolicy",
    "AmazonEKSComputeClusterPolicy",
    "AmazonEKSComputePolicy",
    "AmazonEKSEditPolicy",
    "AmazonEKSHybridPolicy",
    "AmazonEKSLoadBalancingClusterPolicy",
    "AmazonEKSLoadBalancingPolicy",
    "AmazonEKSNetworkingClusterPolicy",
    "AmazonEKSNetworkingPolicy",
    "AmazonEKSSecretReaderPolicy",
    "AmazonEKSViewPolicy",
)
ARNS = frozenset(PREFIX + name for name in NAMES)


@operation("eks", "ListAccessPolicies")
def list_access_policies(call: Call) -> Record:
    return build_page(call, "accessPolicies", [{"name": name, "arn": PREFIX + name} for name in NAMES])
