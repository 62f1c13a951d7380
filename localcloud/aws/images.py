"""Public AMIs of the local AWS, for nodes and EC2 hosts. Their ids differ by region, as on AWS, and never change."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Architecture = Literal["x86_64", "arm64"]

EKS_RELEASE = "20260714"
KUBERNETES_PATCHES = {
    # The two newest are from release v20260714 (awslabs/amazon-eks-ami, CHANGELOG.md); older patch numbers are invented.
    "1.30": "1.30.14",
    "1.31": "1.31.14",
    "1.32": "1.32.13",
    "1.33": "1.33.11",
    "1.34": "1.34.8",
    "1.35": "1.35.6",
    "1.36": "1.36.2",
}
"""Kubernetes version -> kubelet version of the newest AMI release."""

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
    """Public SSM parameters of the AMI: name -> value, with `{id}` in place of the AMI's id."""

    def id(self, region: str) -> str:
        return "ami-" + hashlib.sha256(f"{region}/{self.name}".encode()).hexdigest()[:17]


def _eks(version: str, architecture: Architecture, variant: str) -> Image:
    """Return an EKS AMI with its SSM parameters.

    https://docs.aws.amazon.com/eks/latest/userguide/retrieve-ami-id.html
    """
    path = f"/aws/service/eks/optimized-ami/{version}/amazon-linux-2023/{architecture}/{variant}/recommended"
    kubelet = KUBERNETES_PATCHES[version]
    name = f"amazon-eks-node-al2023-{architecture}-{variant}-{version}-v{EKS_RELEASE}"
    return Image(
        name=name,
        description=f"EKS-optimized Kubernetes node based on Amazon Linux 2023, (k8s: {kubelet}, containerd: 2.2.4)",
        owner=EKS_OWNER,
        architecture=architecture,
        created="2026-07-15T02:11:08.000Z",
        root_device="/dev/xvda",
        root_gib=20,
        parameters=(
            (f"{path}/image_id", "{id}"),
            (f"{path}/image_name", name),
            (f"{path}/release_version", f"{kubelet}-{EKS_RELEASE}"),
        ),
    )


def _amazon_linux(architecture: Architecture) -> Image:
    """https://docs.aws.amazon.com/linux/al2023/ug/ec2.html"""
    return Image(
        name=f"al2023-ami-2023.9.20260706.0-kernel-6.12-{architecture}",
        description="Amazon Linux 2023 AMI",
        owner=AMAZON_OWNER,
        architecture=architecture,
        created="2026-07-07T18:24:40.000Z",
        root_device="/dev/xvda",
        root_gib=8,
        parameters=(
            (f"/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-{architecture}", "{id}"),
            (f"/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-6.12-{architecture}", "{id}"),
        ),
    )


def _ubuntu(release: str, code_name: str, architecture: Architecture) -> Image:
    """https://documentation.ubuntu.com/aws/aws-how-to/instances/find-ubuntu-images/"""
    cpu = {"x86_64": "amd64", "arm64": "arm64"}[architecture]
    volume = "ebs-gp3" if release >= "23.04" else "ebs-gp2"
    folder = "hvm-ssd-gp3" if release >= "23.04" else "hvm-ssd"
    return Image(
        name=f"ubuntu/images/{folder}/ubuntu-{code_name}-{release}-{cpu}-server-20260701",
        description=f"Canonical, Ubuntu, {release} LTS, {cpu} {code_name} image build on 2026-07-01",
        owner=CANONICAL_OWNER,
        architecture=architecture,
        created="2026-07-01T08:03:51.000Z",
        root_device="/dev/sda1",
        root_gib=8,
        parameters=((f"/aws/service/canonical/ubuntu/server/{release}/stable/current/{cpu}/hvm/{volume}/ami-id", "{id}"),),
    )


def _deep_learning(system: str, release: str, root_device: str, root_gib: int, architecture: Architecture) -> Image:
    """Return a Deep Learning AMI. The releases are those that amis/versions.pkrvars.hcl pins.

    https://docs.aws.amazon.com/dlami/latest/devguide/find-dlami-id.html
    """
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


def _all() -> Iterator[Image]:
    architectures: tuple[Architecture, ...] = ("x86_64", "arm64")
    for architecture in architectures:
        for version in KUBERNETES_PATCHES:
            yield _eks(version, architecture, "standard")
            yield _eks(version, architecture, "nvidia")
        yield _amazon_linux(architecture)
        yield _ubuntu("22.04", "jammy", architecture)
        yield _ubuntu("24.04", "noble", architecture)
        yield _deep_learning("Ubuntu 24.04", "20261006", "/dev/sda1", 75, architecture)
        yield _deep_learning("Ubuntu 22.04", "20260929", "/dev/sda1", 65, architecture)
        yield _deep_learning("Amazon Linux 2023", "20260916", "/dev/xvda", 75, architecture)
    for version in KUBERNETES_PATCHES:
        yield _eks(version, "x86_64", "neuron")


IMAGES: tuple[Image, ...] = tuple(_all())


def parameters(region: str) -> dict[str, str]:
    """Return the public SSM parameters for the AMIs of a region."""
    return {name: value.format(id=image.id(region)) for image in IMAGES for name, value in image.parameters}
