"""`scripts/cluster prepare-node`: this machine becomes ready for kubeadm, by the provisioners that build images too."""

import os
import subprocess
import sys
from pathlib import Path

PROVISIONER = Path(__file__).resolve().parents[1] / "amis" / "provisioners" / "prepare-kubernetes-node.sh"
USAGE = 2


def run(*, check: bool, kubernetes_folder: Path | None) -> int:
    """What the provisioner says goes to the screen; its exit code is ours."""
    if sys.platform != "linux":
        print("cluster prepare-node: nodes are machines with Debian or Ubuntu; run it on the node", file=sys.stderr)
        return USAGE
    environment = dict(os.environ)
    if kubernetes_folder is not None:
        environment["KUBERNETES_FOLDER"] = str(kubernetes_folder.resolve())
    return subprocess.run([PROVISIONER, *(["--check"] if check else [])], env=environment, check=False).returncode
