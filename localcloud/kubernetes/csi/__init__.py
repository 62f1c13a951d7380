"""Shared code for emulators of CSI drivers: gRPC services on nodes, mounts, and the part that runs a driver with its
add-on.

    messages.py      protobuf messages of CSI and of the kubelet's plugin registration
    node_server.py   a driver on a node, over gRPC;  mounts.py: its system calls;  __main__.py: its process, one per node
    part.py          runs a driver while its EKS add-on is installed

The packages efs_csi and fsx_csi define how the drivers differ: how a request identifies a volume, and which call to the
local AWS locates the volume's files. Files are bind-mounted from the local cloud's folder
(localcloud/aws/efs/contents.py).
"""
