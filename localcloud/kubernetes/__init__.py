"""Local Kubernetes: runs a real Kubernetes cluster for each EKS cluster in the local AWS.

The realizer (realizer.py) runs in the local AWS process and handles EKS events. It manages one `Cluster` (cluster.py)
per EKS cluster: a network namespace that emulates the VPC, with etcd, the API server and the other control plane
daemons.

    realizer.py       starts and stops clusters on EKS events; EKS reports ACTIVE only once a cluster is ready
    cluster.py        one cluster: its resources, start and stop
    part.py           base class of the other components (nodes, access, ...), see below;  parts.py: list of them
    running.py        interface of a cluster to its parts
    control_plane.py  etcd, API server, controller manager, scheduler;  dns.py: CoreDNS;  loopback.py: local proxy
    addresses.py      the address plan (pure);  pki.py: certificates
    client.py         admin client of the API server, inside the namespace
    capability.py     checks whether this machine supports real nodes

A part is a subclass of `Part` that is listed in parts.py. Each cluster creates one instance of each part and calls its
methods in this order:

    network()         namespace and bridge exist, nothing runs yet: listen (`cluster.listen`), write files
    options()         flags for the API server
    ready()           the API server is ready, EKS still reports CREATING: apply RBAC, start daemons
    on_event(event)   a node group, add-on or instance was created, changed or deleted (localcloud.aws.events.Event)
    progress(kind, name)   done once all events so far have taken effect; until then EKS reports CREATING or DELETING
    restart_crashed() crashed processes are about to be restarted
    stop()            the cluster stops; supervised processes and ledger entries are cleaned up automatically

All methods except `progress` run one after the other in the cluster's thread. Long-running work needs its own thread.
`progress` must only read attributes, because its caller holds the local AWS's lock.

Members of `self.cluster` that a part may use:

    cluster.id, .name, .region, .account, .folder, .namespace (None without root), .addresses, .pki, .ledger, .supervisor, .api
    cluster.admin_kubeconfig   for programs inside the namespace;  cluster.write_kubeconfig(certificate, file) for others
    cluster.listen(address, port)        a listening socket inside the namespace
    cluster.aws_url                      the local AWS as seen from inside (http://169.254.100.1:4566)
    cluster.supervisor.start("kubelet-x", [...], namespace="...")   recorded, watched; log in cluster.folder/logs
    cluster.ledger.add("cgroup", path)   call before creating a cgroup: the next start removes it even after kill -9
    cluster.pki.issue("system:node:x", organizations=("system:nodes",), names=(...), addresses=(...)) -> Certificate(file, key)
    cluster.api.get(path), .apply(object), .delete(path), .watch(path)   as system:masters
"""
