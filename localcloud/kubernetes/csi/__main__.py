"""`python -m localcloud.kubernetes.csi --driver D --instance i-... --region R --aws URL --pid PID`: run a driver on a node.

The environment contains the token of the control API. The driver starts in the machine's mount namespace, where Python is
installed. The driver then enters PID's mount namespace.
"""

import argparse
import logging
import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

from localcloud.control import TOKEN_VARIABLE, Control, ControlError
from localcloud.kubernetes.csi import mounts
from localcloud.kubernetes.csi.node_server import Driver, MountRefused, Source, Volumes, serve_driver
from localcloud.kubernetes.efs_csi.handles import Handle
from localcloud.kubernetes.efs_csi.volumes import EfsVolumes
from localcloud.kubernetes.fsx_csi.volumes import LustreVolumes

KUBELET = Path("/var/lib/kubelet")
TIMEOUT_SECONDS = 30.0
STOP_SECONDS = 5.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m localcloud.kubernetes.csi")
    parser.add_argument("--driver", required=True, choices=[EfsVolumes.driver, LustreVolumes.driver])
    parser.add_argument("--instance", required=True, help="ID of the node's EC2 instance")
    parser.add_argument("--region", required=True)
    parser.add_argument("--aws", required=True, help="URL of the control API")
    parser.add_argument("--pid", type=int, required=True, help="PID of any process on the node")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    mounts.enter_mount_namespace(arguments.pid)
    ending = threading.Event()

    def request_end(*_: int | FrameType | None) -> None:
        ending.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, request_end)
    endpoint = KUBELET / "plugins" / arguments.driver / "csi.sock"
    registration = KUBELET / "plugins_registry" / f"{arguments.driver}-reg.sock"
    aws = MountClient(Control(arguments.aws, os.environ[TOKEN_VARIABLE]), arguments.region, arguments.instance)
    volumes: Volumes = EfsVolumes(aws.mount_efs) if arguments.driver == EfsVolumes.driver else LustreVolumes(aws.mount_lustre)
    server = serve_driver(Driver(arguments.instance, endpoint, registration, volumes, mounts))
    ending.wait()
    # the kubelet unregisters a driver when its registration socket is deleted
    registration.unlink(missing_ok=True)
    server.stop(STOP_SECONDS).wait()
    return 0


class MountClient:
    """Requests mounts from the local AWS, which checks whether the node may mount the volume and returns the location
    of the volume's files."""

    def __init__(self, control: Control, region: str, instance: str) -> None:
        self._control, self._region, self._instance = control, region, instance

    def mount_efs(self, handle: Handle, encrypted: bool) -> Source:
        return self._request_mount(
            "efs", fileSystem=handle.file_system, accessPoint=handle.access_point, path=handle.path, encrypted=encrypted
        )

    def mount_lustre(self, source: str) -> Source:
        return self._request_mount("fsx", source=source)

    def _request_mount(self, service: str, **volume: object) -> Source:
        query = {"region": self._region, "instance": self._instance, **volume}
        try:
            answer = self._control.post(f"{service}/mounts", query, TIMEOUT_SECONDS)
        except ControlError as error:
            raise MountRefused(str(error)) from error
        if "error" in answer:
            raise MountRefused(answer["error"])
        return Source(Path(answer["folder"]), answer["readOnly"])


if __name__ == "__main__":
    sys.exit(main())
