"""The part that runs the FSx CSI driver while the EKS add-on aws-fsx-csi-driver is installed."""

from localcloud.kubernetes.csi.part import CsiPart
from localcloud.kubernetes.fsx_csi import DRIVER


class FsxCsi(CsiPart):
    addon = "aws-fsx-csi-driver"
    driver = DRIVER
    service_account = "fsx-csi-controller-sa"
