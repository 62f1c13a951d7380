"""`kubeadm init` and `join` on two prepared hosts with the documented commands, without containers.

Local hosts see this machine's cgroups as read-only. The kubelet can start without writable cgroups, but containers
cannot. Therefore kubeadm's static pods run as systemd services with the same commands. All phases of kubeadm run
unmodified.
"""

import json
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from localcloud import mirror
from localcloud.images.recipes import read_pinned_versions
from localcloud.kubernetes.nodes import filesystem
from localcloud.tools.build import ensure_tool
from localcloud.tools.catalogue import ETCD, KUBE_APISERVER, KUBE_CONTROLLER_MANAGER, KUBE_SCHEDULER
from testkit.waiting import wait_until
from tests.hosts.bare_host import CONFIG, PROGRAMS, PROVISIONERS, BareHost, start_bare_hosts

pytestmark = [pytest.mark.xdist_group("hosts"), pytest.mark.mission_only]

PODS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
OF_THIS_MACHINE = "failCgroupV1: false\ncgroupsPerQOS: false\nenforceNodeAllocatable: [none]\noomScoreAdj: 0\n"
"""Kubelet settings for a host whose cgroups are read-only."""
IGNORED = ("SystemVerification", "ImagePull")
"""Preflight checks that need cgroup v2 or an image registry."""
STATIC_POD = f"""#!/usr/bin/python3
import os, sys, yaml
(container,) = yaml.safe_load(open(f"/etc/kubernetes/manifests/{{sys.argv[1]}}.yaml"))["spec"]["containers"]
program, *options = container["command"]
os.execv(f"{PROGRAMS}/{{program}}", [program, *options])
"""
NO_PROXY = "[Service]\nUnsetEnvironment=http_proxy https_proxy\n"
"""systemd drop-in that removes the proxy settings: the HTTP proxy of local hosts reaches the internet, but not other
hosts."""
SERVICE = f"[Unit]\nStartLimitIntervalSec=0\n{NO_PROXY}ExecStart={PROGRAMS}/static-pod %i\nRestart=always\nRestartSec=1\n"
WATCH = "[Path]\nPathExists=/etc/kubernetes/manifests/%i.yaml\n"


def prepare_kubelet(host: BareHost) -> None:
    """Provide writable kernel settings, and /dev/kmsg, from which the kubelet reads OOM events."""
    for bind in filesystem.write_kernel_settings(host.root / "opt/kernel"):
        host.run_checked("mount", "--bind", f"/opt/kernel/{bind.source.name}", str(bind.target))
    host.run_checked("sh", "-c", "test -e /dev/kmsg || mknod /dev/kmsg c 1 11")
    (own := host.root / "etc/systemd/system/kubelet.service.d").mkdir()
    (own / "no-proxy.conf").write_text(NO_PROXY)
    host.run_checked("systemctl", "daemon-reload")


def run_static_pods_as_services(host: BareHost) -> None:
    """Run each static pod as a systemd service that starts when kubeadm has written its manifest."""
    programs, units = host.root / PROGRAMS.removeprefix("/"), host.root / "etc/systemd/system"
    for tool in (ETCD, KUBE_APISERVER, KUBE_CONTROLLER_MANAGER, KUBE_SCHEDULER):
        shutil.copy2(ensure_tool(tool, print), programs)
    (programs / "static-pod").write_text(STATIC_POD)
    (programs / "static-pod").chmod(0o755)
    (units / "static-pod@.service").write_text(SERVICE)
    (units / "static-pod@.path").write_text(WATCH)
    host.run_checked("systemctl", "daemon-reload")
    host.run_checked("systemctl", "start", *(f"static-pod@{name}.path" for name in PODS))


@pytest.fixture(scope="module")
def hosts(skip_if_unsupported: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sequence[BareHost]]:
    with start_bare_hosts(tmp_path_factory.mktemp("kubeadm"), 2) as bare:
        with ThreadPoolExecutor() as threads:
            assert list(threads.map(BareHost.prepare, bare)) == [set(), set()]
        for host in bare:
            prepare_kubelet(host)
        yield bare


def kubectl(host: BareHost, *words: str) -> str:
    return host.run_checked("kubectl", *words, KUBECONFIG="/etc/kubernetes/admin.conf")


def list_nodes(host: BareHost) -> dict[str, dict[str, Any]]:
    return {node["metadata"]["name"]: node for node in json.loads(kubectl(host, "get", "nodes", "-o", "json"))["items"]}


@pytest.mark.mission("E", "kubeadm")
def test_kubeadm_creates_a_control_plane_and_a_node_joins_it(hosts: Sequence[BareHost]) -> None:
    first, second = hosts
    with (first.root / CONFIG.removeprefix("/")).open("a") as file:
        file.write(OF_THIS_MACHINE)
    run_static_pods_as_services(first)
    output = first.run_checked(
        "kubeadm", "init", "--config", CONFIG, f"--ignore-preflight-errors={','.join(IGNORED)}", seconds=400
    )
    assert "Your Kubernetes control-plane has initialized successfully!" in output

    join = first.run_checked(
        "kubeadm", "token", "create", "--print-join-command", KUBECONFIG="/etc/kubernetes/admin.conf"
    ).split()
    joined = second.run_checked(*join, f"--ignore-preflight-errors={IGNORED[0]}", seconds=300)
    assert "This node has joined the cluster" in joined
    cluster_nodes = wait_until(
        lambda: (now := list_nodes(first)) and len(now) == 2 and all("podCIDR" in node["spec"] for node in now.values()) and now
    )
    control = [
        name for name, node in cluster_nodes.items() if "node-role.kubernetes.io/control-plane" in node["metadata"]["labels"]
    ]
    assert len(control) == 1
    assert {node["status"]["nodeInfo"]["kubeletVersion"] for node in cluster_nodes.values()} == {
        f"v{read_pinned_versions()['kubernetes_version']}"
    }
    assert sorted(map(get_internal_ip, cluster_nodes.values())) == sorted(host.address for host in hosts)
    assert {node["spec"]["podCIDR"].rpartition(".")[0].rpartition(".")[0] for node in cluster_nodes.values()} == {"10.244"}


@pytest.mark.mission("E", "kubeadm")
def test_upstream_flannel_is_scheduled_on_every_node(hosts: Sequence[BareHost]) -> None:
    """flannel's pods stay pending, because these hosts cannot run containers."""
    first = hosts[0]
    source = mirror.download_module(
        shutil.which("go") or "go", f"github.com/flannel-io/flannel@v{read_pinned_versions()['flannel_version']}"
    )
    shutil.copy(source / "Documentation/kube-flannel.yml", first.root / "opt")
    manifest_url = "file:///opt/kube-flannel.yml"
    first.run_checked(f"{PROVISIONERS}/fetch-flannel.sh", "/etc/kube-flannel.yml", "host-gw", FLANNEL_MANIFEST=manifest_url)
    kubectl(first, "apply", "-f", "/etc/kube-flannel.yml")
    find = ("get", "daemonset", "-n", "kube-flannel", "kube-flannel-ds", "-o", "json")
    wait_until(lambda: json.loads(kubectl(first, *find))["status"].get("desiredNumberScheduled") == len(hosts))


def get_internal_ip(node: dict[str, Any]) -> str:
    return str(next(address["address"] for address in node["status"]["addresses"] if address["type"] == "InternalIP"))
