"""Emulator of cluster-autoscaler, which no package registry offers: `python -m localcloud.kubernetes.autoscaler`.

It runs as a pod, in the image registry.k8s.io/autoscaling/cluster-autoscaler, with the real flags. From the cluster it reads
only nodes and the pods that the scheduler could not place; from AWS only Auto Scaling groups, their tags and EC2's
description of their instance types. https://github.com/kubernetes/autoscaler/tree/master/cluster-autoscaler

    flags.py       command line of the real program
    quantities.py  Kubernetes' amounts
    objects.py     nodes and pods, reduced to what decisions need
    fitting.py     does this pod fit on that node?
    groups.py      Auto Scaling group: its size, and the template of its next node
    scale_up.py    number of new nodes per group; why a pod stays pending
    scale_down.py  unneeded nodes
    loop.py        one pass over the cluster, with its actions
    kube.py, cloud.py   the API server and AWS

It simulates resources, node selectors, required node affinity, taints, required anti-affinity between hosts, and the
DaemonSets' share of a new node. It imports nothing else of the project: the image has only this package and boto3.
"""
