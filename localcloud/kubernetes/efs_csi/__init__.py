"""Emulator of the EKS add-on aws-efs-csi-driver: mounts EFS file systems in pods. The emulator uses the real driver's name.

    volumes.py       volume of a request -> the local AWS's answer: where its files are
    handles.py       volume handle -> file system, access point and path (pure)
    provisioning.py  PersistentVolumeClaim -> access point and PersistentVolume (pure)
    controller.py    watches claims and volumes, in the local AWS process
    part.py          runs the driver and the controller while the add-on is installed

The local AWS decides whether a node may mount a file system (localcloud/aws/efs/mounting.py). If the access point sets a user,
the mount is ID-mapped: processes of user 1000 act as that user. Unlike on EFS, they see themselves as the owner of their files,
and other users can write nothing.
https://github.com/kubernetes-sigs/aws-efs-csi-driver
"""

DRIVER = "efs.csi.aws.com"
