"""Authentication and authorization for a local cluster's API server, with EKS access entries and access policies.

token.py      tokens of `aws eks get-token`: an STS request signed for one cluster
entries.py    STS identity -> access entry of the cluster -> Kubernetes user name and groups
policies.py   permissions of the EKS access policies
review.py     the API server's two webhooks, served by the local AWS
api_server.py kube-apiserver flags that enable the webhooks
"""
