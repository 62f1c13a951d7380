"""`prepare-kubernetes-node.sh` on a bare disk: its errors are clear, and `--check` changes nothing."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from localcloud.hosts import roots
from localcloud.images import layers
from localcloud.images.recipes import read_pinned_versions
from localcloud.images.root import PROXIES
from localcloud.kubernetes.nodes.containerd import PAUSE_IMAGE
from localcloud.tools.build import ensure_tool
from localcloud.tools.catalogue import KUBEADM
from tests.images.conftest import needs_roots

pytestmark = [pytest.mark.xdist_group("hosts"), needs_roots]

PREPARE = "/tmp/amis/provisioners/prepare-kubernetes-node.sh"
INSTALL = "/tmp/amis/provisioners/install-kubernetes.sh"
FLANNEL = "/tmp/amis/provisioners/fetch-flannel.sh"
OLD_KUBELET = "#!/bin/sh\necho Kubernetes v1.29.3\n"


@dataclass(frozen=True)
class Disk:
    """A base root file system without a running system; only the test's commands run in it."""

    layer: Path

    def run(self, *command: str, **settings: str) -> "subprocess.CompletedProcess[str]":
        """Run a command with kubeadm, kubelet and kubectl in /tmp/downloads."""
        proxies = {name: os.environ[name] for name in PROXIES if name in os.environ}
        programs = ensure_tool(KUBEADM, print).parent
        return roots.run_in_overlay(self.layer, [roots.ensure_bare_root(print)], command, {**proxies, **settings}, programs)

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        file = self.layer / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    (layer := tmp_path / "layer").mkdir()
    return Disk(layer)


def test_check_lists_everything_a_bare_machine_lacks_and_changes_nothing(disk: Disk) -> None:
    done = disk.run(PREPARE, "--check")
    missing = {line.split(": ")[0].removeprefix("missing  ") for line in done.stdout.splitlines() if line.startswith("missing")}
    assert done.returncode == 1
    assert {"containerd runs", "containerd", "socat", "kubectl", "the kubelet starts at boot", "no swap after a boot"} <= missing
    assert {f"{name} {read_pinned_versions()['kubernetes_version']}" for name in ("kubelet", "kubeadm")} <= missing
    assert [name for name in layers.take_snapshot(disk.layer) if not name.startswith(("dev", "proc", "sys", "tmp"))] == []


def test_an_unknown_option_is_rejected(disk: Disk) -> None:
    done = disk.run(PREPARE, "--chek")
    assert (done.returncode, done.stderr) == (
        2,
        'prepare-kubernetes-node.sh: unknown option "--chek". Use --check or no option\n',
    )


def test_the_error_for_an_unsupported_distribution_names_the_distribution(disk: Disk) -> None:
    disk.write("etc/os-release", 'ID=fedora\nPRETTY_NAME="Fedora Linux 42"\n')
    done = disk.run(PREPARE)
    assert (done.returncode, done.stderr) == (2, "Fedora Linux 42 is not supported. Use Debian or Ubuntu\n")


def test_preparing_a_node_without_root_is_rejected(disk: Disk) -> None:
    done = disk.run("setpriv", "--reuid=1000", "--clear-groups", PREPARE)
    assert (done.returncode, done.stderr) == (2, "preparing a node needs root. Run it with sudo\n")


def test_a_machine_that_is_already_a_cluster_node_is_left_alone(disk: Disk) -> None:
    disk.write("etc/kubernetes/kubelet.conf", "")
    done = disk.run(PREPARE)
    assert done.returncode == 2 and "this machine is already a cluster node (/etc/kubernetes/kubelet.conf)" in done.stderr


def test_an_installed_kubelet_of_another_version_is_not_replaced(disk: Disk) -> None:
    disk.write("usr/bin/kubelet", OLD_KUBELET, 0o755)
    done = disk.run(INSTALL, KUBERNETES_FOLDER="/tmp/downloads")
    assert done.returncode == 1
    assert (
        f"/usr/bin/kubelet is v1.29.3, expected v{read_pinned_versions()['kubernetes_version']}. Upgrade with kubeadm"
        in done.stderr
    )
    assert (disk.layer / "usr/bin/kubelet").read_text() == OLD_KUBELET


def test_a_folder_with_missing_programs_or_other_versions_is_rejected(disk: Disk) -> None:
    done = disk.run(INSTALL, KUBERNETES_FOLDER="/nonexistent")
    assert done.returncode == 2
    assert "/nonexistent/kubeadm does not exist or is not executable. Add it, or unset KUBERNETES_FOLDER" in done.stderr
    disk.write("opt/old/kubeadm", "#!/bin/sh\necho v1.29.3\n", 0o755)
    other = disk.run(INSTALL, KUBERNETES_FOLDER="/opt/old")
    assert other.returncode == 2 and "/opt/old/kubeadm is v1.29.3, expected v" in other.stderr


def test_a_flannel_manifest_with_a_wrong_checksum_is_not_written(disk: Disk) -> None:
    other = disk.run(FLANNEL, "/etc/kube-flannel.yml", FLANNEL_MANIFEST="file:///etc/os-release")
    assert other.returncode == 1 and f"but {read_pinned_versions()['flannel_sha256']} is pinned" in other.stderr
    assert not (disk.layer / "etc/kube-flannel.yml").exists()
    unknown = disk.run(FLANNEL, "/etc/kube-flannel.yml", "ipip")
    assert (unknown.returncode, unknown.stderr) == (2, 'unknown backend "ipip". Use vxlan or host-gw\n')


def test_the_pinned_versions_match_the_local_cloud() -> None:
    assert read_pinned_versions()["kubernetes_version"] == KUBEADM.version
    assert PAUSE_IMAGE.endswith(f":{read_pinned_versions()['pause_version']}")
