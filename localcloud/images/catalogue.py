"""Catalog of the local cloud's images: upstream names and recipes."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from localcloud import published
from localcloud.images.recipes import Frameworks, Layer, Packages, Program, Provisioned, Root, Source, read_pinned_versions
from localcloud.tools.catalogue import (
    ALERTMANAGER,
    EFA_DEVICE_PLUGIN,
    GPU_EXPORTER,
    JOBSET,
    KUBE_STATE_METRICS,
    KUEUE,
    KUEUE_BEFORE,
    MPI_OPERATOR,
    NODE_EXPORTER,
    NVIDIA_DEVICE_PLUGIN,
    NVML,
    PAUSE,
    PROMETHEUS,
    TRAINER,
    Tool,
)

USER = "1000:1000"
NOBODY = "65532:65532"
"""User and group of `nonroot` in distroless images."""


@dataclass(frozen=True)
class Image:
    """Container image of the local cloud."""

    name: str
    """Image reference including the registry. `*` matches any text. Images of this project omit the registry: the local
    registry serves them in every repository that a stack can have (`_REPOSITORY`)."""
    content: str
    """User-facing description of the image's content."""
    layers: tuple[Layer, ...]
    stands_in: bool = False
    """Whether the image contains an emulator instead of the upstream program."""
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    user: str = "0:0"
    folder: str = "/"
    environment: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def is_own(self) -> bool:
        """Whether this is an image of this project, whose name omits the registry."""
        return "/" not in self.name

    @property
    def tags(self) -> tuple[str, ...]:
        """Tags that clients can pull. For an image of this project, the only entry is the tag or tag pattern in the
        image's name."""
        repository, _, tag = self.name.rpartition(":")
        return (
            (tag,)
            if self.is_own
            else tuple(listed for listed in published.load_image_tags(repository) if fnmatchcase(listed, tag))
        )

    @property
    def slug(self) -> str:
        """Return the image reference as a valid folder name."""
        return self.name.replace("/", "_").replace(":", "_").replace("*", "any")

    def settings(self) -> dict[str, Any]:
        """Return the container settings (the `config` object of the OCI image configuration):
        https://github.com/opencontainers/image-spec/blob/v1.1.0/config.md"""
        return {
            "User": self.user,
            "Env": [f"{name}={value}" for name, value in sorted({"PATH": _PATH, **self.environment}.items())],
            "Entrypoint": list(self.entrypoint),
            "Cmd": list(self.command),
            "WorkingDir": self.folder,
        }


_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_INTEL = {"I_MPI_ROOT": "/opt/mpi", "FI_PROVIDER_PATH": "/opt/mpi/lib/libfabric/prov"}
"""Environment variables for jobs that start Intel MPI's Hydra launcher directly instead of through `mpirun`."""
PYTHON = ("install-python.sh", "install-mpi4py.sh")
SSH = ("install-openssh.sh", "create-user.sh", "configure-pod-ssh.sh")
"""Provisioners of every job image, in addition to `PYTHON`. The MPI implementation is the last layer of the
image."""
PY_SPY = Provisioned(("install-py-spy.sh",))
"""Layer with py-spy, which the job controller uses to read the Python stacks of ranks."""

PLAIN = Image(
    "plain:1",
    "mpi4py, numpy, sshd for user mpiuser on port 2222",
    (Root(), Provisioned(PYTHON), Provisioned(SSH), PY_SPY),
    user=USER,
    folder="/home/mpiuser",
)
"""Common base of the job images. The registry does not serve the base itself."""


def _define_job_image(name: str, mpi: str, implementation: str, version: str, **environment: str) -> Image:
    return Image(
        name,
        f"{implementation} {version}, {PLAIN.content}",
        (*PLAIN.layers, Provisioned((mpi, "validate-mpi.sh"), tuple(environment.items()))),
        entrypoint=("/usr/bin/tini", "-s", "-g", "--", "/usr/local/bin/job-entrypoint"),
        command=("/usr/sbin/sshd", "-De", "-f", "/home/mpiuser/.sshd_config"),
        user=PLAIN.user,
        folder=PLAIN.folder,
        environment={
            "GPUMPI_MPI_IMPLEMENTATION": implementation,
            "GPUMPI_MPI_VERSION": version,
            # Let mpirun run as root: pods run as root only if their manifest requests it.
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            **(_INTEL if implementation == "Intel" else {}),
        },
    )


def _add_boto3(name: str, job: Image) -> Image:
    """Return a job image with boto3, for `keyExchange: s3`."""
    return replace(job, name=name, content=f"{job.content}, boto3", layers=(*job.layers, Frameworks("boto3")))


def _define_pi_image(tag: str, job: Image) -> Image:
    """Return an emulator of mpi-operator's example image `pi`. The emulator contains a Python program instead of a
    compiled program."""
    return Image(
        f"docker.io/mpioperator/mpi-pi:{tag}",
        f"the mpi-operator example pi, rewritten in Python; {job.content}",
        (*job.layers, Source("localcloud/images/pi.py", "home/mpiuser/pi", 0o755)),
        stands_in=True,
        entrypoint=job.entrypoint,
        user=job.user,
        folder=job.folder,
        environment=job.environment,
    )


def _define_workload_image(name: str, workload: str, job: Image, *more: Layer, content: str, **environment: str) -> Image:
    """Return a job image with a framework and a program from `workloads/`."""
    return Image(
        name,
        f"workloads/{workload}: {content}, {job.content}",
        (*job.layers, *more, Source(f"workloads/{workload}", f"workloads/{workload}")),
        entrypoint=job.entrypoint,
        command=job.command,
        user=job.user,
        folder=job.folder,
        environment={**job.environment, **environment},
    )


def _define_manager_image(repository: str, tool: Tool) -> Image:
    return Image(
        f"{repository}:v{tool.version}",
        "upstream program",
        (Program(tool, "manager"),),
        entrypoint=("/manager",),
        user=NOBODY,
    )


_KUEUE = "registry.k8s.io/kueue/kueue"
_VERSIONS = read_pinned_versions()
OPENMPI_4 = _define_job_image("openmpi:4", "install-openmpi.sh", "OpenMPI", _VERSIONS["openmpi4_version"], OPENMPI_SERIES="4")
OPENMPI_5 = _define_job_image("openmpi:5", "install-openmpi.sh", "OpenMPI", _VERSIONS["openmpi5_version"], OPENMPI_SERIES="5")
MPI_RECIPE = replace(OPENMPI_5, name="mpi:*", content=f"{OPENMPI_5.content}; no CUDA, NCCL or EFA", stands_in=True)
"""Emulates images built from `images/mpi`, which uses an AWS image as its base."""
OPENMPI_5_BOTO3 = _add_boto3("openmpi-boto3:5", OPENMPI_5)
MPICH = _define_job_image("mpich:5", "install-mpich.sh", "MPICH", _VERSIONS["mpich_version"])
INTEL_MPI = _define_job_image("intel-mpi:2021", "install-intel-mpi.sh", "Intel", _VERSIONS["intel_mpi_version"])
CHAINERMN = _define_workload_image("chainermn:1", "chainermn-mnist", OPENMPI_4, Frameworks("chainermn"), content="ChainerMN")
_HOROVOD = (Frameworks("tensorflow"), Frameworks("horovod", "install-horovod.sh"))
HOROVOD = _define_workload_image(
    "horovod:1",
    "horovod-mnist",
    OPENMPI_4,
    *_HOROVOD,
    Source("workloads/horovod-mnist/requirements.txt", "workloads/horovod-mnist/requirements.txt"),
    content="TensorFlow, Horovod",
    # Packages are preinstalled, but without these variables Debian's pip rejects `pip install` and checks for updates.
    PIP_BREAK_SYSTEM_PACKAGES="1",
    PIP_DISABLE_PIP_VERSION_CHECK="1",
)
TENSORFLOW = _define_workload_image("tensorflow:1", "tensorflow-benchmarks", OPENMPI_4, *_HOROVOD, content="TensorFlow, Horovod")
PYTORCH = _define_workload_image(
    "pytorch:1",
    "pytorch-ddp",
    PLAIN,
    Provisioned(("install-torch.sh",)),
    content="Debian's PyTorch",
    # This version of torchrun fails unless it redirects the ranks' output: https://github.com/meta-llama/llama/issues/86
    PET_REDIRECTS="1",
    PET_TEE="1",
    PYTHONUNBUFFERED="1",  # otherwise, redirected output appears only when the program ends
)
FSDP = Image(
    "pytorch-fsdp:1",
    "workloads/pytorch-fsdp: PyTorch 2.6 from Debian 13, without MPI or sshd",
    (
        Root("debian_torch2_suite"),
        Provisioned(("install-python.sh", "create-user.sh")),
        Provisioned(("install-torch.sh",)),
        PY_SPY,
        Source("workloads/pytorch-fsdp", "workloads/pytorch-fsdp"),
    ),
    command=("python3",),
    user=USER,
    folder="/home/mpiuser",
    environment={"USE_LIBUV": "0", "PYTHONUNBUFFERED": "1"},  # Debian builds PyTorch without libuv
)
JAX = _define_workload_image("jax:1", "jax-mnist", OPENMPI_5, Frameworks("jax"), content="JAX")
MPI_BENCHMARKS = _define_workload_image("mpi-benchmarks:1", "mpi-benchmarks", OPENMPI_5, content="benchmark programs")
WORKLOAD_IMAGES = (CHAINERMN, HOROVOD, TENSORFLOW, PYTORCH, FSDP, JAX, MPI_BENCHMARKS)
JOB_IMAGES = (OPENMPI_4, OPENMPI_5, MPICH, INTEL_MPI)

PLATFORM_IMAGES = (
    Image(
        "registry.k8s.io/pause:3.*",
        "keeps a pod's namespaces open; our own program in Go",
        (Program(PAUSE, "pause"),),
        stands_in=True,
        entrypoint=("/pause",),
        user="65535:65535",
    ),
    Image(
        "public.ecr.aws/amazonlinux/amazonlinux:2023.*",
        "Debian's root file system",
        (Root(),),
        stands_in=True,
        command=("/bin/bash",),
    ),
    Image(
        "docker.io/mpioperator/mpi-operator:0.8.2",
        "upstream program",
        (Program(MPI_OPERATOR, "opt/mpi-operator"),),
        entrypoint=("/opt/mpi-operator",),
        command=("--help",),
    ),
    _define_manager_image(_KUEUE, KUEUE),
    Image(
        "nvcr.io/nvidia/k8s-device-plugin:v0.*",
        f"upstream program v{NVIDIA_DEVICE_PLUGIN.version}, with our NVML library for simulated GPUs",
        # On a GPU node, the NVIDIA container runtime adds the driver's library when the container starts.
        (Root(), Program(NVIDIA_DEVICE_PLUGIN, "usr/bin/nvidia-device-plugin"), Program(NVML, "usr/lib/libnvidia-ml.so.1")),
        stands_in=True,
        entrypoint=("/usr/bin/nvidia-device-plugin",),
    ),
    Image(
        "*.dkr.ecr.*.amazonaws.com*/eks/aws-efa-k8s-device-plugin:v0.*",
        "device plugin that advertises the node's simulated EFA interfaces",
        (Program(EFA_DEVICE_PLUGIN, "device-plugin"),),
        stands_in=True,
        entrypoint=("/device-plugin",),
        environment={"DEVICE_RESOURCE": "vpc.amazonaws.com/efa"},
    ),
    Image(
        "registry.k8s.io/autoscaling/cluster-autoscaler:v1.*",
        "localcloud/kubernetes/autoscaler, in Python",
        (
            Root(),
            Provisioned(PYTHON),
            Packages(("boto3", "botocore", "jmespath", "python-dateutil", "s3transfer", "six", "urllib3")),
            Source("localcloud/kubernetes/autoscaler", "opt/cluster-autoscaler/localcloud/kubernetes/autoscaler"),
            Source("localcloud/kubernetes/autoscaler/cluster-autoscaler", "cluster-autoscaler", 0o755),
        ),
        stands_in=True,
        command=("/cluster-autoscaler",),
        user=NOBODY,
    ),
    Image(
        "public.ecr.aws/docker/library/python:3.13.*",
        "Debian's Python, for the job controller",
        (Root(), Provisioned(PYTHON)),
        stands_in=True,
        command=("python3",),
    ),
)
"""Images of platform components, which nodes pull before any job runs."""
KUEUE_0_15 = _define_manager_image(_KUEUE, KUEUE_BEFORE)
"""Image of the Kueue version that an earlier release of this program installs. Platform upgrades start from this
version."""

TRAINER_IMAGES = (
    _define_manager_image("registry.k8s.io/jobset/jobset", JOBSET),
    _define_manager_image("ghcr.io/kubeflow/trainer/trainer-controller-manager", TRAINER),
)
"""Additional images of platforms with `platform.trainer`."""


def _define_program_image(repository: str, tool: Tool, path: str, user: str = "65534:65534") -> Image:
    """Return an image with one upstream program. `user`: user of the upstream image (default: `nobody`)."""
    return Image(f"{repository}:v*", "upstream program", (Program(tool, path),), entrypoint=(f"/{path}",), user=user)


MONITORING_IMAGES = (
    _define_program_image("quay.io/prometheus/prometheus", PROMETHEUS, "bin/prometheus"),
    _define_program_image("quay.io/prometheus/alertmanager", ALERTMANAGER, "bin/alertmanager"),
    _define_program_image("quay.io/prometheus/node-exporter", NODE_EXPORTER, "bin/node_exporter"),
    _define_program_image(
        "registry.k8s.io/kube-state-metrics/kube-state-metrics", KUBE_STATE_METRICS, "kube-state-metrics", NOBODY
    ),
    Image(
        "nvcr.io/nvidia/k8s/dcgm-exporter:4.*",
        "our exporter with DCGM's metric names, using our NVML library for simulated GPUs",
        # On a GPU node, the NVIDIA container runtime adds the driver's library when the container starts.
        (Root(), Program(GPU_EXPORTER, "usr/bin/gpu-exporter"), Program(NVML, "usr/lib/libnvidia-ml.so.1")),
        stands_in=True,
        entrypoint=("/usr/bin/gpu-exporter",),
        environment={"GPUMPI_NVML": "/var/lib/kubelet/pod-resources/gpumpi"},
    ),
)
"""Additional images of platforms with `platform.monitoring`."""

IMAGES = (
    *PLATFORM_IMAGES,
    *TRAINER_IMAGES,
    *MONITORING_IMAGES,
    KUEUE_0_15,
    *JOB_IMAGES,
    MPI_RECIPE,
    OPENMPI_5_BOTO3,
    # Do not use Open MPI 5, which ignores the operator's variables and would start all ranks on the launcher.
    _define_pi_image("openmpi", OPENMPI_4),
    _define_pi_image("intel", INTEL_MPI),
    _define_pi_image("mpich", MPICH),
    *WORKLOAD_IMAGES,
)


REGISTRIES = frozenset(image.name.partition("/")[0] for image in IMAGES if "/" in image.name)
"""Registries of the images in the catalog. Any other registry is treated as a mirror of all these registries."""

_REPOSITORY = re.compile(
    r"(?:[0-9]{12}\.dkr\.ecr\.[a-z0-9-]+\.amazonaws\.com(?:\.cn)?/gpumpi-[a-z0-9-]+"
    r"|(?:[a-z0-9-]+\.)+example\.com(?::[0-9]+)?(?:/[a-z0-9_-]+)*)/(?P<short>[^/]+)"
)
"""Pattern of image names in the repositories of stacks: ECR repositories from `platform.imageRepositories`, and hosts
under example.com that a local stack can set as `platform.imageRepository`. The domain example.com is reserved:
https://www.rfc-editor.org/rfc/rfc2606"""


def find_image(name: str) -> Image | None:
    """Return the image with this full reference, which may start with a mirror's host name and path:
    `mirror.example.com/all/docker.io/mpioperator/mpi-operator:0.8.2`.

    An image from a public registry exists only with the tags listed in localcloud/published/images.yaml."""
    image = next((image for image in IMAGES if matches_image_name(name, image.name)), None)
    return image if image is not None and (image.is_own or name.rpartition(":")[2] in image.tags) else None


def matches_image_name(name: str, pattern: str) -> bool:
    """Return whether a client's image or repository name matches `pattern`, a name in the catalog."""
    if "/" not in pattern:
        match = _REPOSITORY.fullmatch(name)
        return name == pattern or (match is not None and fnmatchcase(match["short"], pattern))
    through_mirror = name.partition("/")[0] not in REGISTRIES
    return fnmatchcase(name, pattern) or (through_mirror and fnmatchcase(name, f"*/{pattern}"))


def add_registry(name: str, registry: str = "") -> str:
    """Add the registry to an image name, as clients do: `mpioperator/mpi-pi` becomes `docker.io/mpioperator/mpi-pi`."""
    first, slash, _ = name.partition("/")
    if not registry and slash and ("." in first or ":" in first or first == "localhost"):
        return name
    registry = registry or "docker.io"
    return f"{registry}/library/{name}" if registry == "docker.io" and not slash else f"{registry}/{name}"
