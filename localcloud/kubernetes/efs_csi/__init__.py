"""What the EKS add-on aws-efs-csi-driver does: EFS file systems as volumes of pods. The driver's name is the real one's.

    handles.py       which file system, access point and path a volume is (pure)
    messages.py      the messages of CSI and of the kubelet's plugin registration
    node_server.py   the driver on a node, over gRPC;  mounts.py: its system calls;  __main__.py: its process, one per node
    provisioning.py  a claim of a storage class -> an access point and a volume (pure)
    controller.py    watches claims and volumes, in the local AWS's process
    part.py          both in the life of a cluster, while the add-on is installed

Files lie in the local cloud's folder (localcloud/aws/efs/contents.py) and are bound from there; whether a node may mount decides
the local AWS (localcloud/aws/efs/mounting.py). Unlike EFS, a bind mount does not make every client the access point's user: files
carry the user of the process that writes them. https://github.com/kubernetes-sigs/aws-efs-csi-driver
"""

DRIVER = "efs.csi.aws.com"
