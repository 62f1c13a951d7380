"""Who reaches a local cluster's API, and what they may: EKS's access entries and access policies.

token.py      what `aws eks get-token` made: an STS request signed for one cluster
entries.py    an STS identity -> the cluster's access entry -> Kubernetes user name and groups
policies.py   what EKS's access policies allow
review.py     the two webhooks of the API server, answered by the local AWS
api_server.py how the API server is told to ask them
"""
