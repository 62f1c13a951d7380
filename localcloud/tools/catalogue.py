"""The tools that are built from source. For each tool, go.mod and go.sum of a wrapper module next to this file pin
the version."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Module:
    """A wrapper Go module. The programs of a module are built together and share compiled packages."""

    name: str
    """Name of the module's folder."""
    version: str
    packages: tuple[str, ...]
    """Go import paths of the programs. The program's name is the last path element that is not a major version."""
    variables: tuple[str, ...] = ()
    """`name=value` pairs for the linker, such as the version that the programs report."""
    tags: tuple[str, ...] = ()
    """Build tags."""
    added: tuple[tuple[str, str], ...] = ()
    """(path, text) of generated files that releases contain but the Go module lacks. Each path starts with the import
    path of the Go module."""
    loads_libraries: bool = False
    """Whether the programs load C libraries at run time. If so, the build needs a C compiler, and the image needs a
    libc."""

    @property
    def folder(self) -> Path:
        return HERE / self.name

    @property
    def programs(self) -> tuple[str, ...]:
        return tuple(re.sub(r"/v\d+$", "", package).rsplit("/", 1)[-1] for package in self.packages)


@dataclass(frozen=True)
class Tool:
    """One program of a module."""

    name: str
    module: Module

    @property
    def version(self) -> str:
        return self.module.version


def _build_command_paths(repository: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{repository}/cmd/{name}" for name in names)


def _read_module_version(name: str, package: str) -> str:
    """Return the version of the Go module that contains a package, from the go.mod of a wrapper module."""
    lines = re.finditer(r"^\s*(?:require )?(\S+) v(\S+)", (HERE / name / "go.mod").read_text(encoding="utf-8"), re.MULTILINE)
    return next(line[2] for line in lines if f"{package}/".startswith(f"{line[1]}/"))


def _define_upstream_module(name: str, *packages: str, variables: tuple[str, ...] = (), **more: Any) -> Module:
    """Return the wrapper of an upstream Go module. In `variables`, `{version}` is the version of that module."""
    version = _read_module_version(name, packages[0])
    return Module(name, version, packages, tuple(each.format(version=version) for each in variables), **more)


def _define_kubernetes_module(name: str, *programs: str) -> Module:
    # Without these variables, clients cannot parse the server's version and kubeadm looks up a version on the internet.
    major, minor, _ = _read_module_version(name, "k8s.io/kubernetes").split(".")
    items = ("gitVersion=v{version}", f"gitMajor={major}", f"gitMinor={minor}", "gitTreeState=clean")
    variables = tuple(f"k8s.io/component-base/version.{item}" for item in items)
    return _define_upstream_module(name, *_build_command_paths("k8s.io/kubernetes", *programs), variables=variables)


def _define_kueue_module(name: str) -> Module:
    variables = ("sigs.k8s.io/kueue/pkg/version.GitVersion=v{version}",)
    return _define_upstream_module(name, *_build_command_paths("sigs.k8s.io/kueue", "kueue"), variables=variables)


_PULUMI = _define_upstream_module(
    "pulumi",
    "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi",
    variables=("github.com/pulumi/pulumi/sdk/v3/go/common/version.Version=v{version}",),
)
_KUBERNETES = _define_kubernetes_module(
    "kubernetes", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubeadm", "kubectl"
)
_KUBELET_BEFORE = _define_kubernetes_module("kubelet-1.34", "kubelet")
_ETCD = Module(name="etcd", version="3.6.8", packages=("gpumpi/tools/etcd",))
_COREDNS = Module(name="coredns", version="1.15.0", packages=("gpumpi/tools/coredns",))
_MPI_OPERATOR = _define_upstream_module(
    "mpi-operator",
    *_build_command_paths("github.com/kubeflow/mpi-operator", "mpi-operator"),
    variables=("github.com/kubeflow/mpi-operator/pkg/version.Version=v{version}",),
)
_KUEUE, _KUEUE_BEFORE = _define_kueue_module("kueue"), _define_kueue_module("kueue-0.15")
_JOBSET = _define_upstream_module("jobset", "sigs.k8s.io/jobset")
_TRAINER = _define_upstream_module(
    "trainer", *_build_command_paths("github.com/kubeflow/trainer/v2", "trainer-controller-manager")
)
_KWOK = _define_upstream_module(
    "kwok", *_build_command_paths("sigs.k8s.io/kwok", "kwok"), variables=("sigs.k8s.io/kwok/pkg/consts.Version=v{version}",)
)
_PAUSE = Module(name="pause", version="1.0.0", packages=("gpumpi/tools/pause",))
_NVIDIA_DEVICE_PLUGIN = _define_upstream_module(
    "nvidia-device-plugin",
    "github.com/NVIDIA/k8s-device-plugin/cmd/nvidia-device-plugin",
    variables=("github.com/NVIDIA/k8s-device-plugin/internal/info.version=v{version}",),
    loads_libraries=True,
)
_NODE_PROBLEM_DETECTOR = Module(name="node-problem-detector", version="1.36.0", packages=("gpumpi/tools/node-problem-detector",))
_NVML = Module(name="nvml", version="1.0.0", packages=("libnvidia-ml.so.1",))
_DEVICE_PLUGIN = Module(name="device-plugin", version="1.0.0", packages=("gpumpi/tools/device-plugin",))
_PROMETHEUS = _define_upstream_module(
    "prometheus",
    "github.com/prometheus/prometheus/cmd/prometheus",
    variables=("github.com/prometheus/common/version.Version=3.13.1",),  # release of the Go module v0.313.1
    tags=("remove_all_sd", "enable_kubernetes_sd"),  # without these tags, compiling the clients of all clouds would take minutes
)
_ALERTMANAGER = _define_upstream_module(
    "alertmanager",
    "github.com/prometheus/alertmanager/cmd/alertmanager",
    variables=("github.com/prometheus/common/version.Version={version}",),
    # Releases contain web pages that npm builds from Elm sources; this page replaces them.
    added=(("github.com/prometheus/alertmanager/ui/app/dist/index.html", "This build has no pages. Use its API.\n"),),
)
_KUBE_STATE_METRICS = _define_upstream_module("kube-state-metrics", "k8s.io/kube-state-metrics/v2")
_NODE_EXPORTER = _define_upstream_module("node-exporter", "github.com/prometheus/node_exporter")
_GPU_EXPORTER = Module(name="gpu-exporter", version="1.0.0", packages=("gpumpi/tools/gpu-exporter",), loads_libraries=True)

_PACKER = _define_upstream_module("packer", "github.com/hashicorp/packer")
_PACKER_AMAZON = _define_upstream_module("packer-plugin-amazon", "github.com/hashicorp/packer-plugin-amazon")

PULUMI = Tool("pulumi", _PULUMI)
KUBE_APISERVER = Tool("kube-apiserver", _KUBERNETES)
KUBE_CONTROLLER_MANAGER = Tool("kube-controller-manager", _KUBERNETES)
KUBE_SCHEDULER = Tool("kube-scheduler", _KUBERNETES)
KUBELET = Tool("kubelet", _KUBERNETES)
KUBELET_BEFORE = Tool("kubelet", _KUBELET_BEFORE)
"""The kubelet of the previous Kubernetes version, for upgrade tests."""
KUBE_PROXY = Tool("kube-proxy", _KUBERNETES)
KUBEADM = Tool("kubeadm", _KUBERNETES)
KUBECTL = Tool("kubectl", _KUBERNETES)
ETCD = Tool("etcd", _ETCD)
COREDNS = Tool("coredns", _COREDNS)
MPI_OPERATOR = Tool("mpi-operator", _MPI_OPERATOR)
KUEUE = Tool("kueue", _KUEUE)
KUEUE_BEFORE = Tool("kueue", _KUEUE_BEFORE)
"""The Kueue version that earlier releases of this program installed."""
JOBSET = Tool("jobset", _JOBSET)
TRAINER = Tool("trainer-controller-manager", _TRAINER)
KWOK = Tool("kwok", _KWOK)
NVIDIA_DEVICE_PLUGIN = Tool("nvidia-device-plugin", _NVIDIA_DEVICE_PLUGIN)
NODE_PROBLEM_DETECTOR = Tool("node-problem-detector", _NODE_PROBLEM_DETECTOR)
"""Upstream code with our own `main`, which reports the same conditions as EKS's node monitoring agent."""
NVML = Tool("libnvidia-ml.so.1", _NVML)
"""Our C library that emulates NVML on local nodes."""
EFA_DEVICE_PLUGIN = Tool("device-plugin", _DEVICE_PLUGIN)
PAUSE = Tool("pause", _PAUSE)
PROMETHEUS = Tool("prometheus", _PROMETHEUS)
ALERTMANAGER = Tool("alertmanager", _ALERTMANAGER)
KUBE_STATE_METRICS = Tool("kube-state-metrics", _KUBE_STATE_METRICS)
NODE_EXPORTER = Tool("node_exporter", _NODE_EXPORTER)
GPU_EXPORTER = Tool("gpu-exporter", _GPU_EXPORTER)
"""Our program that emulates the DCGM exporter on local nodes."""
PACKER = Tool("packer", _PACKER)
PACKER_AMAZON = Tool("packer-plugin-amazon", _PACKER_AMAZON)

TOOLS = (
    *(PULUMI, KUBE_APISERVER, KUBE_CONTROLLER_MANAGER, KUBE_SCHEDULER, KUBELET, KUBE_PROXY, KUBEADM, KUBECTL),
    *(ETCD, COREDNS, MPI_OPERATOR, KUEUE, KWOK, NVIDIA_DEVICE_PLUGIN, NVML, NODE_PROBLEM_DETECTOR, EFA_DEVICE_PLUGIN, PAUSE),
)
ON_DEMAND = (
    *(PACKER, PACKER_AMAZON, KUEUE_BEFORE, KUBELET_BEFORE, JOBSET, TRAINER),
    *(PROMETHEUS, ALERTMANAGER, KUBE_STATE_METRICS, NODE_EXPORTER, GPU_EXPORTER),
)
"""Tools built on first use, because only AMI builds, upgrade tests, and stacks with Trainer or monitoring need them."""
