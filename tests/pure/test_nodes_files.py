"""Configuration files of a local node equal those in `tests/golden/nodes`; other tests check individual rules."""

import os
import re
from collections.abc import Callable
from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path

import pytest
import yaml

from localcloud.kubernetes.nodes import containerd, filesystem, hardware, kube_proxy, kubelet, pod_network, watches
from localcloud.kubernetes.nodes.filesystem import Root
from localcloud.kubernetes.nodes.hardware import Bind
from localcloud.machine.cgroups import Cgroups
from tests.pure import node_world

GOLDEN = Path(__file__).parent.parent / "golden" / "nodes"
FOLDER = Path("/local cloud/nodes/i-0a")
PODS = IPv4Network("100.64.3.0/24")


def render_kubelet_config() -> str:
    certificates = kubelet.Certificates(Path("/pki/ca.crt"), Path("/pki/node.crt"), Path("/pki/node.key"))
    settings = kubelet.config(
        node_world.make_machine(),
        certificates=certificates,
        dns="172.20.0.10",
        cgroup="/gpumpi-x-1-i-0a",
        cpus=2,
        name_servers=Path("/etc/resolv.conf"),
    )
    return yaml.safe_dump(settings, sort_keys=False)


def render_kubelet_flags() -> str:
    flags = kubelet.build_flags(node_world.make_machine(), config_file=Path("/n/kubelet.yaml"), kubeconfig=Path("/n/kubeconfig"))
    return "\n".join(flags) + "\n"


def render_boot_script() -> str:
    return filesystem.build_boot_script(
        folder=FOLDER,
        own=FOLDER / "own",
        root=Root(("dev", "home", "usr", "opt/tools"), (("bin", "usr/bin"), ("var", "data"))),
        binds=[Bind(FOLDER / "meminfo", Path("/proc/meminfo"))],
        visible=[Path("/var/cache/tools"), Path("/home/tools")],
        hostname="ip-10-0-1-7.us-west-2.compute.internal",
    )


FILES: dict[str, Callable[[], str]] = {
    "boot.sh": render_boot_script,
    "containerd.toml": lambda: containerd.build_config(
        registries=Path("/n/registries"), network_plugins=Path("/opt/cni/bin"), runc=Path("/usr/sbin/runc")
    ),
    "kubelet.yaml": render_kubelet_config,
    "kubelet.flags": render_kubelet_flags,
    "kube-proxy.yaml": lambda: yaml.safe_dump(
        kube_proxy.build_config("ip-10-0-1-7", Path("/n/kubeconfig"), IPv4Network("100.64.0.0/16")), sort_keys=False
    ),
    "pods.conflist": lambda: pod_network.build_cni_config(PODS),
    "meminfo": lambda: hardware.format_meminfo(node_world.make_machine()),
}


@pytest.mark.parametrize("name", FILES)
def test_generated_file_matches_golden_file(name: str) -> None:
    text = FILES[name]()
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.mkdir(exist_ok=True)
        (GOLDEN / name).write_text(text, encoding="utf-8")
    assert text == (GOLDEN / name).read_text(encoding="utf-8")


def test_node_can_create_folders_in_opt_without_changing_the_host() -> None:
    root = filesystem.read_machine_root()
    assert "opt" not in root.folders
    assert {name for name in root.folders if name.startswith("opt/")} == {
        f"opt/{entry.name}" for entry in Path("/opt").iterdir() if entry.is_dir() and not entry.is_symlink()
    }


def test_every_golden_file_is_generated() -> None:
    assert {path.name for path in GOLDEN.iterdir()} == set(FILES)


def test_user_data_overrides_the_kubelet_defaults() -> None:
    plain = node_world.make_machine()
    config = {"maxPods": 7, "evictionHard": {"pid.available": "10%"}}
    user_data = replace(plain.user_data, kubelet_flags=(*plain.user_data.kubelet_flags, "--v=9"), kubelet_config=config)
    machine = replace(plain, user_data=user_data)
    settings = kubelet.config(
        machine,
        certificates=kubelet.Certificates(Path("a"), Path("b"), Path("c")),
        dns="172.20.0.10",
        cgroup="/x",
        cpus=2,
        name_servers=Path("/etc/resolv.conf"),
    )
    assert settings["maxPods"] == 7
    assert settings["evictionHard"]["pid.available"] == "10%" and "memory.available" in settings["evictionHard"]
    assert kubelet.build_flags(machine, config_file=Path("f"), kubeconfig=Path("k"))[-1] == "--v=9"


def test_node_sees_memory_and_huge_pages_of_its_instance_type(tmp_path: Path) -> None:
    machine = node_world.make_machine()
    binds = {bind.target: bind.source for bind in hardware.write_fake_files(machine, "0-1", tmp_path / "hardware")}
    numa, pages = binds[Path("/sys/devices/system/node")], binds[Path("/sys/kernel/mm/hugepages")]
    assert f"MemTotal:       {machine.memory_kib} kB" in (numa / "node0" / "meminfo").read_text()
    assert (numa / "node0" / "cpulist").read_text() == "0-1\n", "the kernel accepts only CPUs that the machine has"
    assert str((numa / "node0" / "cpu1").readlink()) == "/sys/devices/system/cpu/cpu1"
    for folder in (pages, numa / "node0" / "hugepages"):
        assert (folder / "hugepages-2048kB" / "nr_hugepages").read_text() == "5128\n"


def test_every_image_is_pulled_from_the_local_registry(tmp_path: Path) -> None:
    containerd.write_registries(tmp_path, "http://169.254.100.1:5000")
    text = (tmp_path / "_default" / "hosts.toml").read_text()
    assert set(re.findall(r"http://[^\"]+", text)) == {"http://169.254.100.1:5000"}, "containerd must use no other registry"


def test_kubelet_finds_its_required_kernel_settings(tmp_path: Path) -> None:
    binds = filesystem.write_kernel_settings(tmp_path / "kernel")
    settings = {str(bind.target): bind.source.read_text().strip() for bind in binds}
    assert settings["/proc/sys/vm/overcommit_memory"] == "1"


def test_node_contains_no_secrets_of_the_host(tmp_path: Path) -> None:
    filesystem.write_node_files(tmp_path, "ip-10-0-1-7", ["10.0.1.7"], "172.20.0.10")
    names = {path.name for path in (tmp_path / "etc").rglob("*")}
    assert not names & {"shadow", "gshadow", "sudoers", "private", "ssh", "krb5.keytab"}
    assert (tmp_path / "etc" / "resolv.conf").read_text() == "nameserver 172.20.0.10\n"


def make_cgroup_trees(folder: Path, *names: str) -> Cgroups:
    """Create a cgroup v1 hierarchy from plain folders."""
    for name in names:
        (folder / name).mkdir()
        (folder / name / "cgroup.procs").touch()
    return Cgroups(folder)


def test_cgroup_is_created_in_every_v1_hierarchy(tmp_path: Path) -> None:
    cgroups = make_cgroup_trees(tmp_path, "cpuset", "memory")
    (tmp_path / "cpu").symlink_to("cpuset")
    for file in ("cpuset.cpus", "cpuset.mems"):
        (tmp_path / "cpuset" / file).write_text("0")
    cgroups.create("node")
    assert cgroups.list_folders("node") == [tmp_path / "cpuset" / "node", tmp_path / "memory" / "node"]
    assert (tmp_path / "cpuset" / "node" / "cpuset.cpus").read_text() == "0", "a process can join only after this is set"


def test_cgroup_v2_is_created_and_removed_with_its_children(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpu memory")
    cgroups = Cgroups(tmp_path)
    cgroups.create("node")
    (tmp_path / "node" / "kubepods" / "pod1").mkdir(parents=True)
    cgroups.remove("node")
    assert not (tmp_path / "node").exists()
    cgroups.remove("node")


@pytest.mark.parametrize(("before", "after"), [("128\n", "1024\n"), ("8192\n", "8192\n")])
def test_inotify_watch_limit_is_raised_but_never_lowered(before: str, after: str, tmp_path: Path) -> None:
    limit = tmp_path / "max_user_instances"
    limit.write_text(before)
    watches.raise_inotify_limit(limit)
    assert limit.read_text() == after
