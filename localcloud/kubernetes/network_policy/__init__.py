"""Network policies of a local cluster, enforced as the VPC CNI plugin's network policy agent enforces them on EKS.

    part.py       starts the agent while the add-on vpc-cni enables network policies, and reports whether they are enforced
    __main__.py   the agent of a cluster: follows the API server and replaces the rules of each node
    cache.py      local copy of the objects of one kind;  objects.py: pods, services, namespaces and policies (pure)
    resolve.py    policies and pods -> the connections that each isolated pod may have (pure)
    rules.py      these connections -> nftables rules of one node (pure);  nft.py: runs the program nft

EKS compiles policies to eBPF programs at the pods' interfaces. The local cloud uses nftables in each node's network
namespace instead. The semantics are the same: https://docs.aws.amazon.com/eks/latest/userguide/cni-network-policy.html

- Without a policy, a pod may open any connection. In the standard enforcing mode, this also applies to a new pod until
  the agent has applied the pod's policies.
- Egress rules apply to the address to which the pod connects, which may be the address of a service. A `podSelector`
  allows the addresses of the pods and of the services that select them; an `ipBlock` with only pod addresses does not
  allow services.
- Named ports match only with a `podSelector` or `namespaceSelector`.
- A node and its own pods can always reach each other. Pods in the host's network are not isolated.
"""
