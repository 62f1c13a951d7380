"""EKS Pod Identity: pods get the credentials of the IAM role that is associated with their service account.

mutation.py     patch that EKS applies to such a pod (pure)
credentials.py  pod -> its association -> session of the role from the local STS
servers.py      the admission webhook and the agent at 169.254.170.23, both in the local AWS's process
part.py         both in a cluster's lifecycle

https://docs.aws.amazon.com/eks/latest/userguide/pod-id-how-it-works.html
"""
