"""Platform: everything installed into a Kubernetes cluster.

The modules load pulumi_kubernetes, which is slow, so `infra.clusters` imports them only when it uses them.
"""
