"""Public AMIs of the local AWS, for nodes and EC2 hosts. As on AWS, ids differ by region. An id never changes, because
it is derived from the region and the AMI's name.

The releases are in localcloud/published/amis.yaml.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from localcloud import published

Architecture = Literal["x86_64", "arm64"]

_TABLE = published.load_table("amis")
EKS_RELEASE: str = _TABLE["eks"]["release"]
KUBERNETES_PATCHES: dict[str, str] = {version: entry["version"] for version, entry in _TABLE["eks"]["kubelets"].items()}
"""Maps a Kubernetes version to the kubelet version of the newest AMI release."""

EKS_OWNER = "602401143452"
AMAZON_OWNER = "137112412989"
DEEP_LEARNING_OWNER = "898082745236"
CANONICAL_OWNER = "099720109477"


@dataclass(frozen=True)
class Image:
    name: str
    description: str
    owner: str
    architecture: Architecture
    created: str
    root_device: str
    root_gib: int
    parameters: tuple[tuple[str, str], ...]
    """Maps the names of the AMI's public SSM parameters to their values. In values, `{id}` is a placeholder for the AMI's id."""
    kubernetes: str | None = None
    """Kubernetes version of an EKS AMI."""

    def id(self, region: str) -> str:
        return "ami-" + hashlib.sha256(f"{region}/{self.name}".encode()).hexdigest()[:17]


def _build_eks_image(version: str, architecture: Architecture, variant: str) -> Image:
    """Return an EKS AMI with its SSM parameters.

    https://docs.aws.amazon.com/eks/latest/userguide/retrieve-ami-id.html
    """
    path = f"/aws/service/eks/optimized-ami/{version}/amazon-linux-2023/{architecture}/{variant}/recommended"
    kubelet, containerd = KUBERNETES_PATCHES[version], _TABLE["eks"]["containerd"]
    name = f"amazon-eks-node-al2023-{architecture}-{variant}-{version}-v{EKS_RELEASE}"
    return Image(
        name=name,
        description=f"EKS-optimized Kubernetes node based on Amazon Linux 2023, (k8s: {kubelet}, containerd: {containerd})",
        owner=EKS_OWNER,
        architecture=architecture,
        created=_TABLE["eks"]["created"],
        root_device="/dev/xvda",
        root_gib=20,
        parameters=(
            (f"{path}/image_id", "{id}"),
            (f"{path}/image_name", name),
            (f"{path}/release_version", f"{kubelet}-{EKS_RELEASE}"),
        ),
        kubernetes=version,
    )


def _build_amazon_linux_image(architecture: Architecture) -> Image:
    """https://docs.aws.amazon.com/linux/al2023/ug/ec2.html"""
    release, kernel = _TABLE["amazon-linux-2023"]["release"], _TABLE["amazon-linux-2023"]["kernel"]
    return Image(
        name=f"al2023-ami-{release}-kernel-{kernel}-{architecture}",
        description="Amazon Linux 2023 AMI",
        owner=AMAZON_OWNER,
        architecture=architecture,
        created=_TABLE["amazon-linux-2023"]["created"],
        root_device="/dev/xvda",
        root_gib=8,
        parameters=(
            (f"/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-{architecture}", "{id}"),
            (f"/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-{kernel}-{architecture}", "{id}"),
        ),
    )


def _build_ubuntu_image(release: str, code_name: str, architecture: Architecture) -> Image:
    """https://documentation.ubuntu.com/aws/aws-how-to/instances/find-ubuntu-images/"""
    cpu = {"x86_64": "amd64", "arm64": "arm64"}[architecture]
    volume = "ebs-gp3" if release >= "23.04" else "ebs-gp2"
    folder = "hvm-ssd-gp3" if release >= "23.04" else "hvm-ssd"
    created = _TABLE["ubuntu"]["created"]
    return Image(
        name=f"ubuntu/images/{folder}/ubuntu-{code_name}-{release}-{cpu}-server-{_TABLE['ubuntu']['release']}",
        description=f"Canonical, Ubuntu, {release} LTS, {cpu} {code_name} image build on {created[:10]}",
        owner=CANONICAL_OWNER,
        architecture=architecture,
        created=created,
        root_device="/dev/sda1",
        root_gib=8,
        parameters=((f"/aws/service/canonical/ubuntu/server/{release}/stable/current/{cpu}/hvm/{volume}/ami-id", "{id}"),),
    )


def _build_deep_learning_image(system: str, root_device: str, root_gib: int, architecture: Architecture) -> Image:
    """Return a Deep Learning AMI: https://docs.aws.amazon.com/dlami/latest/devguide/find-dlami-id.html"""
    release = _TABLE["deep-learning"][system]["release"]
    title = f"Deep Learning Base OSS Nvidia Driver GPU AMI ({system}) {release}"
    slug = system.lower().replace(" ", "-")
    return Image(
        name=title if architecture == "x86_64" else title.replace("Learning", "Learning ARM64"),
        description=f"NVIDIA driver and CUDA on {system}",
        owner=DEEP_LEARNING_OWNER,
        architecture=architecture,
        created=f"{release[:4]}-{release[4:6]}-{release[6:]}T05:40:12.000Z",
        root_device=root_device,
        root_gib=root_gib,
        parameters=((f"/aws/service/deeplearning/ami/{architecture}/base-oss-nvidia-driver-gpu-{slug}/latest/ami-id", "{id}"),),
    )


def _list_images() -> Iterator[Image]:
    architectures: tuple[Architecture, ...] = ("x86_64", "arm64")
    for architecture in architectures:
        for version in KUBERNETES_PATCHES:
            yield _build_eks_image(version, architecture, "standard")
            yield _build_eks_image(version, architecture, "nvidia")
        yield _build_amazon_linux_image(architecture)
        yield _build_ubuntu_image("22.04", "jammy", architecture)
        yield _build_ubuntu_image("24.04", "noble", architecture)
        yield _build_deep_learning_image("Ubuntu 24.04", "/dev/sda1", 75, architecture)
        yield _build_deep_learning_image("Ubuntu 22.04", "/dev/sda1", 65, architecture)
        yield _build_deep_learning_image("Amazon Linux 2023", "/dev/xvda", 75, architecture)
    for version in KUBERNETES_PATCHES:
        yield _build_eks_image(version, "x86_64", "neuron")


IMAGES: tuple[Image, ...] = tuple(_list_images())


def find_kubernetes_version(region: str, image_id: str) -> str | None:
    """Return the Kubernetes version of an EKS AMI; None for other AMIs."""
    return next((image.kubernetes for image in IMAGES if image.id(region) == image_id), None)


def list_ssm_parameters(region: str) -> dict[str, str]:
    """Return the public SSM parameters for the AMIs of a region."""
    return {name: value.format(id=image.id(region)) for image in IMAGES for name, value in image.parameters}
