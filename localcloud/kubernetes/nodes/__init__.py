"""The nodes of a local cluster: each instance of a managed node group becomes a node.

    fleet.py        adds and removes nodes on instance and node group events;  roster.py: phase of each node (pure)
    machine.py      the EC2 instance behind a node;  user_data.py: user data, parsed as nodeadm does (both pure)
    node.py         a real node: network namespace, mounts, processes, cgroup;  programs.py: its programs
    filesystem.py   its root folder and PID 1;  hardware.py: its memory and huge pages;  links.py: its network
    kubelets.py     the kubelet's version;  gpus.py: its GPUs and their faults;  kernel_log.py: its kernel log
    logind.py       tells the kubelet that the instance shuts down;  finding.py: finds nodes from another process
    containerd.py, kubelet.py, kube_proxy.py, pod_network.py    settings (pure);  labels.py: labels and taints (pure)
    drain.py        evicts pods;  simulated.py: nodes beyond the limit (limits.py), which kwok simulates
    watches.py      raises the inotify limit, which many kubelets would exceed

As on EKS, a node has GPUs and EFA devices only after a device plugin is installed. For GPUs, this is NVIDIA's own
plugin with our NVML library (localcloud/tools/nvml), which reads the node's GPUs from
/var/lib/kubelet/device-plugins/gpumpi/gpus. For EFA, the local image contains localcloud/tools/device-plugin, which
reads the number of devices from devices.json in the same folder. Every device plugin's DaemonSet mounts
/var/lib/kubelet/device-plugins.
"""
