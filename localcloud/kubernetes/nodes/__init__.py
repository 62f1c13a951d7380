"""The nodes of a local cluster: each instance of a managed node group becomes a node.

    fleet.py        adds and removes nodes on instance and node group events;  roster.py: phase of each node (pure)
    machine.py      the EC2 instance behind a node;  user_data.py: user data, parsed as nodeadm does (both pure)
    node.py         a real node: network namespace, mounts, processes, cgroup;  programs.py: its programs
    filesystem.py   its root folder and PID 1;  hardware.py: its memory and huge pages;  links.py: its network
    containerd.py, kubelet.py, kube_proxy.py, pod_network.py    settings (pure);  labels.py: labels and taints (pure)
    drain.py        evicts pods;  simulated.py: nodes beyond the limit (limits.py), which kwok simulates
    watches.py      raises the inotify limit, which many kubelets would exceed

As on EKS, a node has GPUs and EFA devices only after a device plugin is installed. Local images with the names of the
upstream plugins contain localcloud/tools/device-plugin. The environment of the image selects the resource
(DEVICE_RESOURCE=nvidia.com/gpu or vpc.amazonaws.com/efa). The plugin reads the number of devices from
/var/lib/kubelet/device-plugins/gpumpi/devices.json on the node; every device plugin's DaemonSet mounts
/var/lib/kubelet/device-plugins.
"""
