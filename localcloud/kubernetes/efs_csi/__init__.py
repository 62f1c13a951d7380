"""Emulator of the EKS add-on aws-efs-csi-driver: EFS file systems as volumes of pods. It has the real driver's name.

    handles.py       volume handle -> file system, access point and path (pure)
    messages.py      messages of CSI and of the kubelet's plugin registration
    node_server.py   the driver on a node, over gRPC;  mounts.py: its system calls;  __main__.py: its process, one per node
    provisioning.py  PersistentVolumeClaim -> access point and PersistentVolume (pure)
    controller.py    watches claims and volumes, in the local AWS's process
    part.py          runs both in a cluster while the add-on is installed

Files are in the local cloud's folder (localcloud/aws/efs/contents.py) and are bind-mounted from there. The local AWS
decides whether a node may mount (localcloud/aws/efs/mounting.py). Unlike EFS, a bind mount does not map every client to the
access point's user: files belong to the process that writes them. https://github.com/kubernetes-sigs/aws-efs-csi-driver
"""

DRIVER = "efs.csi.aws.com"
