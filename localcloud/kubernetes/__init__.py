"""Local Kubernetes: every EKS cluster of the local AWS comes alive.

The realizer (realizer.py) lives in the local AWS's process and hears its events. It owns one `Cluster` (cluster.py) per EKS
cluster: a network namespace that stands for its VPC, and in it etcd, the API server and the other daemons of the control plane.

    realizer.py       events -> clusters; what EKS shows waits for them
    cluster.py        one cluster: what it has, its bring-up and its end
    part.py           what else comes alive in a cluster (nodes, access, ...): see below;  parts.py: all of them
    running.py        what they use of a cluster
    control_plane.py  etcd, API server, controller manager, scheduler;  dns.py: CoreDNS;  loopback.py: the way in from 127.0.0.1
    addresses.py      the address plan (pure);  pki.py: certificates
    client.py         the API server as an administrator sees it, from inside the namespace
    capability.py     what this machine can do, in sentences

A part is a subclass of `Part`, named in parts.py. One is made per cluster and hears, in this order:

    network()         namespace and bridge exist, nothing runs: listen (`cluster.listen`), write files
    options()         flags for the API server
    ready()           the API server is ready, EKS still says CREATING: apply RBAC, start daemons
    event(event)      a node group or instance of this cluster was created, changed or is gone (localcloud.aws.events.Event)
    progress(kind, name)   whether what was told about it is real by now: EKS says CREATING or DELETING until it is
    stop()            the cluster ends; whatever was started through the supervisor or noted in the ledger ends without it

All but `progress` run in the cluster's own thread, one after the other; what takes long starts a thread of its own.
`progress` is called with the local AWS's lock held: it only looks at attributes.

What a part uses of `self.cluster`:

    cluster.id, .name, .region, .account, .folder, .namespace (None without root), .addresses, .pki, .ledger, .supervisor, .api
    cluster.admin_kubeconfig             for programs inside the namespace;  cluster.kubeconfig_for(certificate, file) for others
    cluster.listen(address, port)        a listening socket inside the namespace
    cluster.aws_url                      the local AWS as seen from inside (http://169.254.100.1:4566)
    cluster.supervisor.start("kubelet-x", [...], namespace="...")   recorded, watched; log in cluster.folder/logs
    cluster.ledger.add("cgroup", path)   before it is made: a later start removes it even after kill -9
    cluster.pki.issue("system:node:x", organizations=("system:nodes",), names=(...), addresses=(...)) -> Certificate(file, key)
    cluster.api.get(path), .apply(object), .delete(path), .watch(path)   as system:masters
"""
