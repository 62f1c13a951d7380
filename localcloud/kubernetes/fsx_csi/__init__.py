"""Emulator of the EKS add-on aws-fsx-csi-driver: mounts FSx for Lustre file systems in pods.

The emulator registers under the name of the real driver.

    volumes.py  volume of a request -> the local AWS's answer: where its files are
    part.py     runs the driver while the add-on is installed

The local AWS decides whether a node may mount a file system (localcloud/aws/fsx/mounting.py). Only static volumes are
emulated: without the real controller, a claim for a new file system stays Pending.
https://github.com/kubernetes-sigs/aws-fsx-csi-driver
"""

DRIVER = "fsx.csi.aws.com"
