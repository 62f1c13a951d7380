"""Tag keys that EKS sets on a node group's instances and related resources."""

CLUSTER_TAG = "eks:cluster-name"
NODE_GROUP_TAG = "eks:nodegroup-name"
