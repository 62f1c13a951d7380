"""EKS Pod Identity: gives pods the credentials of the IAM role associated with their service account.

mutation.py     patch that EKS applies to pods with a Pod Identity association (pure)
credentials.py  credentials for a pod, from a role session of the local STS
servers.py      the admission webhook and the agent at 169.254.170.23, both in the local AWS process
part.py         starts and stops both servers

https://docs.aws.amazon.com/eks/latest/userguide/pod-id-how-it-works.html
"""
