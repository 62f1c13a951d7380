"""The nodes of a local cluster: each instance of a managed node group becomes one.

    fleet.py        events of instances and node groups -> nodes that come and go;  roster.py: who is how far (pure)
    machine.py      what an instance shows of itself;  boot_text.py: its user data, read as nodeadm does (both pure)
    node.py         a real node: network namespace, mounts, processes, cgroup;  programs.py: what it runs
    filesystem.py   its root and first process;  hardware.py: memory and huge pages of its type;  links.py: its network
    containerd.py, kubelet.py, kube_proxy.py, pod_network.py    settings (pure);  labels.py: labels and taints (pure)
    drain.py        how pods leave;  simulated.py: nodes beyond the limit (limits.py), which kwok pretends
    watches.py      a limit of Linux that many kubelets reach

GPUs and EFA devices appear when a device plugin is installed, as on EKS: images under the upstream plugins' names hold
localcloud/tools/device-plugin with the image's environment saying which resource (DEVICE_RESOURCE=nvidia.com/gpu or
vpc.amazonaws.com/efa). How many a node has stands in /var/lib/kubelet/device-plugins/gpumpi/devices.json on the node, a
folder that every device plugin's DaemonSet mounts.
"""
