"""What the language host does before a Pulumi program that installs a platform into an EKS cluster.

The Kubernetes provider must not explain more than the official one does, so the language host reports the causes that
only the local cloud knows.
"""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import grpc
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc

SHOWN: Final = 32
"""Exit code of a program whose error has already been shown to the user."""


def may_install_platform(config: Mapping[str, str]) -> bool:
    """Return whether the stack with this configuration may install a platform into an EKS cluster of a local cloud."""
    try:
        target, platform = (json.loads(config.get(f"gpumpi:{key}", "{}")) for key in ("target", "platform"))
    except ValueError:
        return False
    if not isinstance(target, dict) or not isinstance(platform, dict):
        return False  # the program itself reports these values
    return _find_local_cloud_folder() is not None and target.get("kind") == "eks" and platform.get("install") is not False


def _find_local_cloud_folder() -> Path | None:
    """Return the folder of the local cloud whose backend this shell uses."""
    from localcloud.environment import LOCK

    folder = Path(urlsplit(os.environ.get("PULUMI_BACKEND_URL", "")).path).parent
    return folder if (folder / LOCK).is_file() else None


def main() -> int:
    from infra import preflight
    from infra.config import stack_file
    from localcloud import mending
    from localcloud.images import build, stack_images
    from localcloud.images.root import ImageError
    from localcloud.instance import LocalCloud
    from localcloud.kubernetes import capability

    engine, stack, dry_run = sys.argv[1:]
    folder = _find_local_cloud_folder()
    assert folder is not None, "is_needed() has checked it"
    raw = stack_file.read_running_stack()
    images = stack_images.list_platform_images(raw)
    if not images:
        return 0
    cloud = LocalCloud(folder)
    if not cloud.has_kubernetes:
        fix = f"Set `pulumi config set --path gpumpi:platform.install false -s {stack}`, or start it without --no-kubernetes."
        return _show_error(
            engine, f"EKS clusters exist only in the API of this local cloud, so no platform can be installed. {fix}"
        )
    if dead := mending.list_crashed_processes(cloud):
        return _show_error(engine, f"not running: {', '.join(dead)}. Restart with: scripts/cluster local start --home {folder}")
    if (
        dry_run == "false"
        and capability.check_machine().real_nodes
        and not preflight.examine_aws_stack(raw, offline=True).problems
    ):
        # Otherwise, the registry would build the images only when nodes pull them, which can take longer than the ten minutes
        # that Pulumi waits for pods.
        try:
            for image in images:
                build.ensure_image(image, lambda line: print(line, flush=True))
        except ImageError as error:
            return _show_error(engine, str(error))
    return 0


def _show_error(engine: str, message: str) -> int:
    """Show an error to the user."""
    with grpc.insecure_channel(engine) as channel:
        engine_pb2_grpc.EngineStub(channel).Log(engine_pb2.LogRequest(severity=engine_pb2.ERROR, message=message))
    return SHOWN


if __name__ == "__main__":
    sys.exit(main())
