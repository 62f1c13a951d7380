"""The part that runs the EFS CSI driver while the EKS add-on aws-efs-csi-driver is installed."""

from localcloud.kubernetes.csi.part import Controller, CsiPart
from localcloud.kubernetes.efs_csi import DRIVER, controller


class EfsCsi(CsiPart):
    addon = "aws-efs-csi-driver"
    driver = DRIVER
    service_account = controller.SERVICE_ACCOUNT

    def controller(self) -> Controller:
        return controller.Controller(self.cluster)
