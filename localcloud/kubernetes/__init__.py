"""Local Kubernetes: runs a real cluster for every EKS cluster of the local AWS.

The realizer (realizer.py) runs in the local AWS's process and receives its events. It owns one `Cluster` (cluster.py)
per EKS cluster: a network namespace that emulates its VPC, with etcd, the API server and the other control plane daemons.

    realizer.py       events -> clusters; EKS reports a status only once it is real
    cluster.py        one cluster: its resources, start and stop
    part.py           base of other components of a cluster (nodes, access, ...), see below;  parts.py: list of them
    running.py        interface of a cluster for its parts
    control_plane.py  etcd, API server, controller manager, scheduler;  dns.py: CoreDNS;  loopback.py: local proxy
    addresses.py      the address plan (pure);  pki.py: certificates
    client.py         administrator's client of the API server, inside the namespace
    capability.py     what this machine supports, as sentences

A part is a subclass of `Part`, listed in parts.py. Each cluster has one instance, which is called in this order:

    network()         namespace and bridge exist, nothing runs yet: listen (`cluster.listen`), write files
    options()         flags for the API server
    ready()           the API server is ready, EKS still reports CREATING: apply RBAC, start daemons
    event(event)      a node group or instance of this cluster was created, changed or deleted (localcloud.aws.events.Event)
    progress(kind, name)   done once the events so far have taken effect: until then EKS reports CREATING or DELETING
    stop()            the cluster stops; processes of the supervisor and entries in the ledger are cleaned up without it

All except `progress` run in the cluster's own thread, one after the other; long work needs a separate thread.
The caller of `progress` holds the local AWS's lock: it must only read attributes.

What a part may use of `self.cluster`:

    cluster.id, .name, .region, .account, .folder, .namespace (None without root), .addresses, .pki, .ledger, .supervisor, .api
    cluster.admin_kubeconfig             for programs inside the namespace;  cluster.kubeconfig_for(certificate, file) for others
    cluster.listen(address, port)        a listening socket inside the namespace
    cluster.aws_url                      the local AWS as seen from inside (http://169.254.100.1:4566)
    cluster.supervisor.start("kubelet-x", [...], namespace="...")   recorded, watched; log in cluster.folder/logs
    cluster.ledger.add("cgroup", path)   before creating it: a later start removes it even after kill -9
    cluster.pki.issue("system:node:x", organizations=("system:nodes",), names=(...), addresses=(...)) -> Certificate(file, key)
    cluster.api.get(path), .apply(object), .delete(path), .watch(path)   as system:masters
"""
