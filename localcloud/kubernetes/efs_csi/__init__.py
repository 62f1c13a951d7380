"""Emulator of the EKS add-on aws-efs-csi-driver: mounts EFS file systems in pods. The emulator uses the real driver's name.

    volumes.py       volume of a request -> the local AWS's answer: where its files are
    handles.py       volume handle -> file system, access point and path (pure)
    provisioning.py  PersistentVolumeClaim -> access point and PersistentVolume (pure)
    controller.py    watches claims and volumes, in the local AWS process
    part.py          runs the driver and the controller while the add-on is installed

The local AWS decides whether a node may mount a file system (localcloud/aws/efs/mounting.py). Unlike EFS, a bind mount
does not map clients to the access point's user: files belong to the user of the process that writes them.
https://github.com/kubernetes-sigs/aws-efs-csi-driver
"""

DRIVER = "efs.csi.aws.com"
