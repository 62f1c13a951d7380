"""Authentication and authorization of a local cluster's API: EKS's access entries and access policies.

token.py      token of `aws eks get-token`: an STS request signed for one cluster
entries.py    STS identity -> access entry of the cluster -> Kubernetes user name and groups
policies.py   permissions of EKS's access policies
review.py     the API server's two webhooks, served by the local AWS
api_server.py flags that make the API server call them
"""
