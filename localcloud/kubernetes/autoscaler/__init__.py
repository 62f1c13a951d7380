"""A stand-in for cluster-autoscaler, whose program no package registry has: `python -m localcloud.kubernetes.autoscaler`.

It runs as a pod, in the image registry.k8s.io/autoscaling/cluster-autoscaler, with the flags of the real one. All it knows of the
cluster are its nodes and the pods that the scheduler could not place; all it knows of AWS are auto scaling groups, their tags and
the facts of their instance types. https://github.com/kubernetes/autoscaler/tree/master/cluster-autoscaler

    flags.py       the real one's command line
    quantities.py  Kubernetes' amounts
    objects.py     nodes and pods as a decision needs them
    fitting.py     would this node take that pod?
    groups.py      an auto scaling group: its size, and what its next node will be like
    scale_up.py    how many nodes of which group; why a pod stays pending
    scale_down.py  which nodes nobody needs
    loop.py        one look at everything, and what is done about it
    kube.py, cloud.py   the API server and AWS

What is simulated: resources, node selector and required node affinity, taints, required anti-affinity between hosts, and what
daemon sets take of a new node. Nothing here imports the rest of the project: the image has this package, boto3 and no more.
"""
