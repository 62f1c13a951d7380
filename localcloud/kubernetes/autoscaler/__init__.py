"""Emulator of cluster-autoscaler: `python -m localcloud.kubernetes.autoscaler`.

The real cluster autoscaler is not in any package registry. The emulator runs as a pod with the image
registry.k8s.io/autoscaling/cluster-autoscaler and the flags of the real program. From the cluster, the emulator reads only
nodes, pods and DaemonSets. From AWS, the emulator reads only Auto Scaling groups, their tags and their instance types.
https://github.com/kubernetes/autoscaler/tree/master/cluster-autoscaler

    flags.py       command line of the real program
    quantities.py  Kubernetes quantities
    objects.py     the fields of nodes and pods that scaling decisions need
    fitting.py     checks whether a pod fits on a node
    groups.py      Auto Scaling groups and the template of their next node
    scale_up.py    number of new nodes per group; reasons why pods stay pending
    scale_down.py  unneeded nodes
    loop.py        one pass over the cluster, with its actions
    kube.py, cloud.py   clients of the API server and AWS

To check whether a pod fits on a node, the emulator considers resources, node selectors, required node affinity, taints,
required anti-affinity between hosts, and the resources that DaemonSets use on a new node.

The package must not import other modules of the project: the image contains only this package and boto3.
"""
