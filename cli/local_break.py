"""`local break`: break a part of a local cluster, to see how jobs and the platform react."""

from typing import Annotated

import typer

from cli import options
from cli.console import print_json
from cli.errors import NotFound
from cli.exit_codes import OK
from cli.local import Home, report
from cli.local_parts import DEFAULT_HOME
from localcloud.instance import LocalCloud
from localcloud.kubernetes.nodes import gpus


def command(
    node: Annotated[str, typer.Argument(help="Name of the node, or ID of its instance.")],
    xid: Annotated[int, typer.Option(help="Xid that the GPU reports, such as 79: fallen off the bus.", min=1)],
    gpu: Annotated[int, typer.Option(help="Index of the GPU.", min=0)] = 0,
    home: Home = DEFAULT_HOME,
    as_json: options.Json = False,
) -> int:
    """NVIDIA's device plugin then withdraws the GPU from Kubernetes, except after application errors (Xid 13, 31, 43, 45,
    68, 109). The fault stays until the instance is replaced or the device plugin restarts."""
    try:
        uuid = gpus.break_gpu(LocalCloud(home).kubernetes_folder, node, gpu, xid)
    except gpus.NoSuchGpu as error:
        raise NotFound(str(error)) from None
    if as_json:
        print_json({"node": node, "gpu": gpu, "uuid": uuid, "xid": xid})
    else:
        report(f"GPU {gpu} of {node} ({uuid}) has reported Xid {xid}")
    return OK
