"""The nodes of a local cluster: each instance of a managed node group becomes one.

    fleet.py        instance and node group events -> nodes are added and removed;  roster.py: phase of each node (pure)
    machine.py      what a node shows of its instance;  user_data.py: user data, parsed as nodeadm does (both pure)
    node.py         a real node: network namespace, mounts, processes, cgroup;  programs.py: what it runs
    filesystem.py   its root and PID 1;  hardware.py: memory and huge pages of its type;  links.py: its network
    containerd.py, kubelet.py, kube_proxy.py, pod_network.py    settings (pure);  labels.py: labels and taints (pure)
    drain.py        evicts pods;  simulated.py: nodes beyond the limit (limits.py), which kwok simulates
    watches.py      the inotify limit of Linux, which many kubelets reach

GPUs and EFA devices appear when a device plugin is installed, as on EKS. Images with the upstream plugins' names contain
localcloud/tools/device-plugin; the image's environment selects the resource (DEVICE_RESOURCE=nvidia.com/gpu or
vpc.amazonaws.com/efa). The number of devices is in /var/lib/kubelet/device-plugins/gpumpi/devices.json on the node, a
folder that every device plugin's DaemonSet mounts.
"""
