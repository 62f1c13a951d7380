"""How EKS marks the instances that it makes for a node group, and what it makes beside them."""

CLUSTER_TAG = "eks:cluster-name"
NODE_GROUP_TAG = "eks:nodegroup-name"
