"""`prepare-kubernetes-node.sh` on a bare disk: what it refuses it says in a sentence, and with --check it only tells."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from localcloud.hosts import roots
from localcloud.images import layers
from localcloud.images.recipes import versions
from localcloud.images.root import PROXIES
from localcloud.kubernetes.nodes.containerd import PAUSE_IMAGE
from localcloud.tools.build import ensure
from localcloud.tools.catalogue import KUBEADM
from tests.images.conftest import needs_roots

pytestmark = [pytest.mark.xdist_group("hosts"), needs_roots]

PREPARE = "/tmp/amis/provisioners/prepare-kubernetes-node.sh"
INSTALL = "/tmp/amis/provisioners/install-kubernetes.sh"
FLANNEL = "/tmp/amis/provisioners/fetch-flannel.sh"
OLD_KUBELET = "#!/bin/sh\necho Kubernetes v1.29.3\n"


@dataclass(frozen=True)
class Disk:
    """A bare system from which nothing runs but what a test starts."""

    layer: Path

    def run(self, *command: str, **settings: str) -> "subprocess.CompletedProcess[str]":
        """/tmp/downloads holds kubeadm, kubelet and kubectl."""
        proxies = {name: os.environ[name] for name in PROXIES if name in os.environ}
        programs = ensure(KUBEADM, print).parent
        return roots.run_on(self.layer, [roots.bare(print)], command, {**proxies, **settings}, programs)

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        file = self.layer / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    (layer := tmp_path / "layer").mkdir()
    return Disk(layer)


def test_a_bare_machine_is_told_what_it_lacks_and_stays_as_it_is(disk: Disk) -> None:
    done = disk.run(PREPARE, "--check")
    lacking = {line.split(": ")[0].removeprefix("missing  ") for line in done.stdout.splitlines() if line.startswith("missing")}
    assert done.returncode == 1
    assert {"containerd runs", "containerd", "socat", "kubectl", "the kubelet starts at boot", "no swap after a boot"} <= lacking
    assert {f"{name} {versions()['kubernetes_version']}" for name in ("kubelet", "kubeadm")} <= lacking
    assert [name for name in layers.snapshot(disk.layer) if not name.startswith(("dev", "proc", "sys", "tmp"))] == []


def test_what_is_no_option_is_named(disk: Disk) -> None:
    done = disk.run(PREPARE, "--chek")
    assert (done.returncode, done.stderr) == (
        2,
        'prepare-kubernetes-node.sh: "--chek" is not known; write --check or nothing\n',
    )


def test_another_distribution_is_named(disk: Disk) -> None:
    disk.write("etc/os-release", 'ID=fedora\nPRETTY_NAME="Fedora Linux 42"\n')
    done = disk.run(PREPARE)
    assert (done.returncode, done.stderr) == (2, "this is Fedora Linux 42; nodes can be prepared on Debian and Ubuntu\n")


def test_who_is_not_root_is_told(disk: Disk) -> None:
    done = disk.run("setpriv", "--reuid=1000", "--clear-groups", PREPARE)
    assert (done.returncode, done.stderr) == (2, "a node is prepared by root; run it with sudo\n")


def test_a_node_of_a_cluster_is_left_alone(disk: Disk) -> None:
    disk.write("etc/kubernetes/kubelet.conf", "")
    done = disk.run(PREPARE)
    assert done.returncode == 2 and "this machine is a node of a cluster already (/etc/kubernetes/kubelet.conf)" in done.stderr


def test_another_kubelet_is_not_replaced(disk: Disk) -> None:
    disk.write("usr/bin/kubelet", OLD_KUBELET, 0o755)
    done = disk.run(INSTALL, KUBERNETES_FOLDER="/tmp/downloads")
    assert done.returncode == 1
    assert f"/usr/bin/kubelet is v1.29.3, not v{versions()['kubernetes_version']}; upgrade with kubeadm" in done.stderr
    assert (disk.layer / "usr/bin/kubelet").read_text() == OLD_KUBELET


def test_a_folder_without_the_programs_or_with_others_is_named(disk: Disk) -> None:
    done = disk.run(INSTALL, KUBERNETES_FOLDER="/nonexistent")
    assert done.returncode == 2
    assert "there is no program /nonexistent/kubeadm; put it there, or leave the variable out" in done.stderr
    disk.write("opt/old/kubeadm", "#!/bin/sh\necho v1.29.3\n", 0o755)
    other = disk.run(INSTALL, KUBERNETES_FOLDER="/opt/old")
    assert other.returncode == 2 and "/opt/old/kubeadm is v1.29.3, not v" in other.stderr


def test_a_pod_network_that_is_not_upstreams_own_is_not_written(disk: Disk) -> None:
    other = disk.run(FLANNEL, "/etc/kube-flannel.yml", FLANNEL_MANIFEST="file:///etc/os-release")
    assert other.returncode == 1 and f"instead of {versions()['flannel_sha256']}" in other.stderr
    assert not (disk.layer / "etc/kube-flannel.yml").exists()
    unknown = disk.run(FLANNEL, "/etc/kube-flannel.yml", "ipip")
    assert (unknown.returncode, unknown.stderr) == (2, 'the backend is "ipip"; write vxlan or host-gw\n')


def test_the_versions_are_those_that_the_local_cloud_runs() -> None:
    assert versions()["kubernetes_version"] == KUBEADM.version
    assert PAUSE_IMAGE.endswith(f":{versions()['pause_version']}")
