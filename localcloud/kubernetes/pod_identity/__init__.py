"""EKS Pod Identity: pods of a service account with an association have the credentials of its IAM role.

mutation.py     what EKS adds to such a pod (pure)
credentials.py  a pod -> its association -> a session of the role, at the local STS
servers.py      the admission webhook and the agent at 169.254.170.23, both in the local AWS's process
part.py         both in the life of a cluster

https://docs.aws.amazon.com/eks/latest/userguide/pod-id-how-it-works.html
"""
