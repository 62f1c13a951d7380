"""Prepare a host for kubeadm, prepare it again, and reboot it."""

import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from localcloud import mirror
from localcloud.images import layers
from localcloud.images.recipes import read_pinned_versions
from tests.hosts.bare_host import CONFIG, PREPARE, PROVISIONERS, BareHost, start_bare_hosts

pytestmark = [pytest.mark.xdist_group("hosts"), pytest.mark.mission_only]

SETTINGS = ("net.bridge.bridge-nf-call-iptables", "net.bridge.bridge-nf-call-ip6tables", "net.ipv4.ip_forward")
FSTAB = "/dev/sda1 / ext4 defaults 0 1\n/dev/sda2 none swap sw 0 0\n"
NOISE = re.compile(r"(var/(cache|log|tmp|lib/(apt|containerd|dhcp|cni|systemd|private))|tmp|run|dev|proc|sys)(/|$)")
"""Paths that a running system changes on its own."""


@pytest.fixture(scope="module")
def host(skip_if_unsupported: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BareHost]:
    """A host with swap in /etc/fstab and kernel settings that Kubernetes does not accept."""
    with start_bare_hosts(tmp_path_factory.mktemp("node"), 1) as (bare_host,):
        (bare_host.root / "etc/fstab").write_text(FSTAB)
        bare_host.run_checked("sysctl", "--write", *(f"{name}=0" for name in SETTINGS))
        yield bare_host


@pytest.fixture(scope="module")
def prepared_host(host: BareHost) -> BareHost:
    assert host.prepare() == set()
    return host


def snapshot_files(host: BareHost) -> dict[str, str]:
    """Return mode, owner and content of each file that the host's disk adds to the base image, keyed by path."""
    content_by_path = {}
    for name, stamp in layers.take_snapshot(host.disk.upper).items():
        file = host.disk.upper / name
        if not NOISE.match(name):
            is_small = file.is_file() and not file.is_symlink() and file.stat().st_size < 1 << 16
            text = file.read_bytes().hex() if is_small else str(file.readlink()) if file.is_symlink() else ""
            content_by_path[name] = f"{stamp.mode:o} {stamp.owner} {text}"
    return content_by_path


def read_kernel_settings(host: BareHost) -> dict[str, str]:
    return {name: host.run_checked("sysctl", "--values", name).strip() for name in SETTINGS}


@pytest.mark.mission("E", "node preparation")
def test_node_preparation_takes_effect_without_a_reboot(prepared_host: BareHost) -> None:
    assert read_kernel_settings(prepared_host) == dict.fromkeys(SETTINGS, "1")
    assert prepared_host.run_checked("systemctl", "is-active", "containerd").strip() == "active"
    plugins = [line.split() for line in prepared_host.run_checked("ctr", "plugins", "ls").splitlines()]
    assert [line[-1] for line in plugins if line[:2] == ["io.containerd.grpc.v1", "cri"]] == ["ok"]
    for unit, state in (("containerd", "enabled"), ("kubelet", "enabled"), ("swap.target", "masked")):
        assert prepared_host.run("systemctl", "is-enabled", unit).stdout.strip() == state
    assert (
        prepared_host.run_checked("kubelet", "--version").strip() == f"Kubernetes v{read_pinned_versions()['kubernetes_version']}"
    )
    assert prepared_host.run("/opt/cni/bin/bridge").stderr.startswith("CNI bridge plugin")


def test_containerd_uses_the_written_configuration(prepared_host: BareHost) -> None:
    dumped = prepared_host.run_checked("containerd", "config", "dump")
    assert "SystemdCgroup = true" in dumped and 'bin_dir = "/opt/cni/bin"' in dumped
    assert f"registry.k8s.io/pause:{read_pinned_versions()['pause_version']}" in dumped
    assert 'default_runtime_name = "runc"' in dumped, "the host has no GPU"


def test_swap_is_commented_out_in_fstab(prepared_host: BareHost) -> None:
    lines = (prepared_host.root / "etc/fstab").read_text().splitlines()
    assert lines == ["/dev/sda1 / ext4 defaults 0 1", "# gpumpi, no swap on nodes of Kubernetes: /dev/sda2 none swap sw 0 0"]


@pytest.mark.mission("E", "node preparation")
def test_preparing_a_node_again_changes_and_restarts_nothing(prepared_host: BareHost) -> None:
    started = prepared_host.run_checked("systemctl", "show", "--property=ActiveEnterTimestampMonotonic", "containerd")
    first = snapshot_files(prepared_host)
    assert prepared_host.prepare() == set()
    second = snapshot_files(prepared_host)
    assert {name for name in first.keys() | second.keys() if first.get(name) != second.get(name)} == set()
    assert prepared_host.run_checked("systemctl", "show", "--property=ActiveEnterTimestampMonotonic", "containerd") == started


@pytest.mark.mission("E", "node preparation")
def test_node_preparation_survives_a_reboot(prepared_host: BareHost) -> None:
    prepared_host.run_checked("sysctl", "--write", *(f"{name}=0" for name in SETTINGS))
    assert prepared_host.check() == {f"kernel: {name} = 1" for name in SETTINGS}
    prepared_host.reboot()
    assert prepared_host.check() == set()
    assert read_kernel_settings(prepared_host) == dict.fromkeys(SETTINGS, "1")


def test_nvidia_runtime_becomes_the_default_if_installed(prepared_host: BareHost) -> None:
    runtime, config = prepared_host.root / "usr/bin/nvidia-container-runtime", prepared_host.root / "etc/containerd/config.toml"
    before = config.read_text()
    runtime.write_text("#!/bin/sh\n")
    runtime.chmod(0o755)
    try:
        prepared_host.run_checked(f"{PROVISIONERS}/install-containerd.sh")
        dumped = prepared_host.run_checked("containerd", "config", "dump")
        assert 'default_runtime_name = "nvidia"' in dumped and 'BinaryName = "/usr/bin/nvidia-container-runtime"' in dumped
        assert dumped.count("SystemdCgroup = true") >= 2
    finally:
        runtime.unlink()
        prepared_host.run_checked(f"{PROVISIONERS}/install-containerd.sh")
    assert config.read_text() == before


def test_kubeadm_accepts_the_written_configuration(prepared_host: BareHost) -> None:
    """Run every phase of `kubeadm init` that needs no container and no kubelet."""
    config = ("--config", CONFIG)
    prepared_host.run_checked("kubeadm", "config", "validate", *config)
    images = prepared_host.run_checked("kubeadm", "config", "images", "list", *config).split()
    assert f"registry.k8s.io/pause:{read_pinned_versions()['pause_version']}" in images
    try:
        for phase in (("certs", "all"), ("kubeconfig", "all"), ("etcd", "local"), ("control-plane", "all")):
            prepared_host.run_checked("kubeadm", "init", "phase", *phase, *config)
        pods = {
            file.stem: yaml.safe_load(file.read_text()) for file in (prepared_host.root / "etc/kubernetes/manifests").iterdir()
        }
        assert set(pods) == {"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}
        (server,), (manager,) = (pods[name]["spec"]["containers"] for name in ("kube-apiserver", "kube-controller-manager"))
        assert server["image"] == f"registry.k8s.io/kube-apiserver:v{read_pinned_versions()['kubernetes_version']}"
        assert "--cluster-cidr=10.244.0.0/16" in manager["command"]
        refused = prepared_host.run(PREPARE)
        assert refused.returncode == 2 and "is already a cluster node" in refused.stderr
    finally:
        prepared_host.run_checked("rm", "-r", "/etc/kubernetes")


def test_the_flannel_manifest_matches_upstream_with_the_chosen_backend(prepared_host: BareHost) -> None:
    go = shutil.which("go")
    if go is None:
        pytest.skip("the manifest is fetched from flannel's Go module, and Go is not on PATH")
    module = mirror.download_module(go, f"github.com/flannel-io/flannel@v{read_pinned_versions()['flannel_version']}")
    with tempfile.TemporaryDirectory(dir=prepared_host.root / "opt") as folder:
        shutil.copy(module / "Documentation/kube-flannel.yml", folder)
        manifest_url = f"file:///opt/{Path(folder).name}/kube-flannel.yml"
        for words, backend in (((), "vxlan"), (("host-gw",), "host-gw")):
            prepared_host.run_checked(
                f"{PROVISIONERS}/fetch-flannel.sh", "/etc/kube-flannel.yml", *words, FLANNEL_MANIFEST=manifest_url
            )
            objects = list(yaml.safe_load_all((prepared_host.root / "etc/kube-flannel.yml").read_text()))
            (settings,) = [manifest["data"]["net-conf.json"] for manifest in objects if manifest["kind"] == "ConfigMap"]
            assert yaml.safe_load(settings) == {"Network": "10.244.0.0/16", "EnableNFTables": False, "Backend": {"Type": backend}}
