"""Every pinned version, one per line, each with its source."""

from dataclasses import dataclass
from datetime import date, timedelta
from types import MappingProxyType
from typing import Final

STANDARD_SUPPORT_ENDS: Final = MappingProxyType(
    {"1.33": date(2026, 7, 29), "1.34": date(2026, 12, 2), "1.35": date(2027, 3, 27), "1.36": None}
)
"""Maps each Kubernetes version to the last day of EKS's standard support; None if no date was found. After it, AWS bills extended
support, or upgrades the control plane, as the cluster's upgrade policy says:
https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions.html, read 2026-11-28 (through endoflife.date)"""
LIVE_KUBERNETES_VERSIONS: Final = tuple(STANDARD_SUPPORT_ENDS)
"""The Kubernetes versions that a running cluster may have, oldest first."""
SUPPORT_NOTICE: Final = timedelta(days=60)
"""`validate` warns this long before standard support ends."""
_PINNED_ON: Final = date(2026, 11, 28)


def is_near_end_of_support(kubernetes_version: str, today: date) -> bool:
    """Return whether standard support for the version has ended or ends within the notice period."""
    end = STANDARD_SUPPORT_ENDS.get(kubernetes_version)
    return end is not None and today >= end - SUPPORT_NOTICE


KUBERNETES_VERSIONS: Final = tuple(
    version for version in LIVE_KUBERNETES_VERSIONS if not is_near_end_of_support(version, _PINNED_ON)
)
"""The Kubernetes versions to choose from for a new cluster, oldest first."""

WITHOUT_LUSTRE_CLIENT: Final = MappingProxyType({"1.36": "6.18"})
"""The Kubernetes versions whose EKS AMI has a kernel for which no Lustre client is known, each with that kernel:
awslabs/amazon-eks-ami@81fec2e:CHANGELOG.md, release v20260714, and
https://docs.aws.amazon.com/fsx/latest/LustreGuide/install-lustre-client.html, read 2026-11-28. The AMIs for 1.33 to 1.35
have kernel 6.12."""


# --- platform ------------------------------------------------------------------------------------------------------------

# v0.20.0 is newer (2026-08), but its Go module is not available, so its manifest was not tested. v0.19.0 to v0.19.2 gave
# containers with GPUs every InfiniBand device by default, which breaks EFA: NVIDIA/k8s-device-plugin#1692.
NVIDIA_DEVICE_PLUGIN: Final = "v0.19.3"
# The newest release as of 2026-07.
MPI_OPERATOR: Final = "v0.8.2"
# v0.19.2 is newer (2026-08). The Go modules of v0.19.2, v0.16.9, v0.17.7 and v0.17.8 are not available, so none of
# these versions was tested. docs/guides/upgrade.md lists the known bugs of v0.16.1; `infra.platform.admission` avoids them.
KUEUE: Final = "v0.16.1"
# Kueue is built against these versions. Trainer v2.2.0 renamed podTemplateOverrides, the field that Kueue
# writes.
JOBSET: Final = "v0.10.1"
TRAINER: Final = "v2.1.0"
# From aws/eks-charts#1366 (release v0.0.244, 2026-09-10); v0.5.22-eksbuild.9 is newer. NOT VERIFIED in an account.
EFA_DEVICE_PLUGIN: Final = "v0.5.21-eksbuild.13"

# Image for the job controller, whose code is in a ConfigMap. AWS mirrors Docker Hub's official images in this registry,
# without Docker Hub's rate limits. The tag was seen on Docker Hub with digest
# sha256:9d2e5553305c7c7b0097999bb17187c69b921ccd6bc9d40e4bb5ebe652c00285 (2026-09-08); NOT VERIFIED in the mirror.
PYTHON_IMAGE: Final = "public.ecr.aws/docker/library/python:3.13.15-slim-trixie"
AMAZON_LINUX: Final = "public.ecr.aws/amazonlinux/amazonlinux:2023.6.20250218.2"  # found in a public Dockerfile, with digest
"""Image of the Job that runs `chown` on a new Lustre file system."""

# Images of `platform.monitoring`, seen in manifests and image lists of public clusters in 2026; NOT VERIFIED in an account.
PROMETHEUS: Final = "v3.13.1"  # v3.14.0 is newer
ALERTMANAGER: Final = "v0.34.1"
KUBE_STATE_METRICS: Final = "v2.18.0"
NODE_EXPORTER: Final = "v1.12.1"
DCGM_EXPORTER: Final = "4.6.0-4.8.3-distroless"  # this project has never run it, because it needs a GPU
MONITORING_NOT_VERIFIED: Final = MappingProxyType(
    {
        "Prometheus, Alertmanager, kube-state-metrics and node-exporter": "found in image lists of public clusters, "
        "2026-11-23; not pulled",
        f"NVIDIA's DCGM exporter {DCGM_EXPORTER}": "found in public programs, 2026-11-23; never run, because it needs a GPU",
    }
)
"""Maps images of `platform.monitoring` that nobody has run to the places where their versions were found. `validate`
prints these entries."""

_CLUSTER_AUTOSCALER: Final = MappingProxyType(
    {
        # v1.33.0 is the first release of its minor version. The others are the newest patch releases of
        # kubernetes/autoscaler as of 2026-08. Only 1.35.2 was run, built from its source.
        "1.33": "v1.33.0",
        "1.34": "v1.34.5",
        "1.35": "v1.35.2",
        "1.36": "v1.36.1",
    }
)


def choose_autoscaler_version(kubernetes_version: str) -> str:
    """Return the autoscaler version. The autoscaler simulates the scheduler, so its minor version must match the
    cluster's."""
    return _CLUSTER_AUTOSCALER[kubernetes_version]


@dataclass(frozen=True)
class Pinned:
    """File at a Git tag on GitHub, with the hash of its content."""

    repository: str
    version: str
    file: str
    sha256: str

    @property
    def path(self) -> str:
        """Path on raw.githubusercontent.com and in a mirror."""
        return f"{self.repository}/{self.version}/{self.file}"


NVIDIA_MANIFEST: Final = Pinned(
    "NVIDIA/k8s-device-plugin",
    NVIDIA_DEVICE_PLUGIN,
    "deployments/static/nvidia-device-plugin.yml",
    "3b298ec5a81fb4289479ebee7955d287176cefa6ca977ea485c227e80e41dee5",
)
MPI_OPERATOR_MANIFEST: Final = Pinned(
    "kubeflow/mpi-operator",
    MPI_OPERATOR,
    "deploy/v2beta1/mpi-operator.yaml",
    "a7eafe901bebde1410ae0448c2d1ada214a64b2686f6aa44e74eff978573033f",
)


def _pin_kueue_file(file: str, sha256: str) -> Pinned:
    return Pinned("kubernetes-sigs/kueue", KUEUE, f"config/components/{file}", sha256)


def _pin_kueue_crd(kind: str, sha256: str) -> Pinned:
    return _pin_kueue_file(f"crd/bases/kueue.x-k8s.io_{kind}.yaml", sha256)


# Kueue's Git tag does not contain the single-file manifest, only its parts. The program fetches the long parts from the
# tag. `infra.platform.queue` adds the parts that `config/default` would add.
KUEUE_CRDS: Final = (
    _pin_kueue_crd("admissionchecks", "ef8b9850a104a556c6328fc3506970ec4817d333923be1688fa75a6c33a08d0c"),
    _pin_kueue_crd("clusterqueues", "df80f55b9d52e5f2f5ac85fdb817bc4a275b2dc23f409ad4080b336bfbce7d68"),
    _pin_kueue_crd("cohorts", "1977b39897db093cb5271dd765964e1748761b53373215b9839317f47a52bf73"),
    _pin_kueue_crd("localqueues", "d2b3165e4ef48d2e746646119872a66564cd57cc0fe275f1af6beac521d37b55"),
    _pin_kueue_crd("multikueueclusters", "cc4c7d6388300a7d2594c3c52dfa6b664bb2ddf03a16812ab613972b51a4c69a"),
    _pin_kueue_crd("multikueueconfigs", "43e8f15949a1388be117d586e19544f912a52872142ef6fb1d42cd597752af10"),
    _pin_kueue_crd("provisioningrequestconfigs", "5911bb09259555576c8ba299041f3b1ab1ae6f65e982e0f85e84b0e1728761c1"),
    _pin_kueue_crd("resourceflavors", "ecec642a99d7495b1e887001ab27aa5f3317cc7a7cd15c80dabb237f738be164"),
    _pin_kueue_crd("topologies", "d3004a62b120529d541f99e2cc6e3dec3dae3a5ea0ccca65428055e19ed7186d"),
    _pin_kueue_crd("workloadpriorityclasses", "094e7f96c02a0c287cfc38297803d0695bbada92c94c642ee84c2002131a00e4"),
    _pin_kueue_crd("workloads", "77c58dfac10793b7627580b91aac4f12c4cf4bd7e04b1f8a76e3770ab32545a6"),
)
KUEUE_ROLE: Final = _pin_kueue_file("rbac/role.yaml", "f4f342928c8c57c562a500645a90c542b972903b52b1a12b00f5261ac8f4b7c6")
KUEUE_WEBHOOKS: Final = _pin_kueue_file(
    "webhook/manifests.yaml", "f39ce4fa88bcc3fc5bf209e20fe3af54e6f0b5d6585fe6a57df3cc62432d1bbb"
)


def _pin_jobset_file(file: str, sha256: str) -> Pinned:
    return Pinned("kubernetes-sigs/jobset", JOBSET, f"config/components/{file}", sha256)


JOBSET_DEFINITION: Final = _pin_jobset_file(
    "crd/bases/jobset.x-k8s.io_jobsets.yaml", "dd2d5dbb3186ea36f6815b19d9bc18c0f59ce50e28348d11d2a0888e0b5d0f16"
)
JOBSET_ROLE: Final = _pin_jobset_file("rbac/role.yaml", "e33970619e5d1a135ed51dd6cf247df0082b3262ed83dd5a4ccd23914ab4bf64")
JOBSET_LEADER: Final = _pin_jobset_file(
    "rbac/leader_election_role.yaml", "d0208d0d9192cbbf147571abb6a7be38a5edf2e990b36246d57e5c6391f0cfd6"
)
JOBSET_AUTHORIZATION: Final = _pin_jobset_file(
    "rbac/auth_proxy_role.yaml", "856193c2c32b2b282163f11a2068cae5a401e07f64dd20f4389add384863c2dd"
)
JOBSET_WEBHOOKS: Final = _pin_jobset_file(
    "webhook/manifests.yaml", "cf9b784bb633344149413d805226fa918f9488b6cb57c3ce2c8af725d8d1e6b7"
)


def _pin_trainer_file(file: str, sha256: str) -> Pinned:
    return Pinned("kubeflow/trainer", TRAINER, f"manifests/base/{file}", sha256)


TRAINER_DEFINITIONS: Final = (
    _pin_trainer_file(
        "crds/trainer.kubeflow.org_clustertrainingruntimes.yaml",
        "be1a629914db7bef3b4f864be82a0bfcb7ab5fb8e2fd58542de024b9f5f559f0",
    ),
    _pin_trainer_file(
        "crds/trainer.kubeflow.org_trainingruntimes.yaml",
        "bcf07e6094259d389a00d84013e7723b975570373ee00f07dc5faec7b002f155",
    ),
    _pin_trainer_file(
        "crds/trainer.kubeflow.org_trainjobs.yaml", "65ea8f95f298103275e00b690bda5e090355f7eb5d6e4d15236b557f088b8078"
    ),
)
TRAINER_ROLE: Final = _pin_trainer_file("rbac/role.yaml", "cd59fa4bdd8862b09907342867e2182197607718009e00f04fab4007b2fbf5d0")
TRAINER_WEBHOOKS: Final = _pin_trainer_file(
    "webhook/manifests.yaml", "935c027ebd9b7f54f313c114739c001555e6440172e3a14cfa5c228e9f871d09"
)
TRAINER_RUNTIMES: Final = (
    _pin_trainer_file("runtimes/torch_distributed.yaml", "1a7676cef35c79ac281bdc9cec20fbc8604f0ff1b394c1e7619623f1b243410a"),
)
TRAINER_MANIFESTS: Final = (
    *(JOBSET_DEFINITION, JOBSET_ROLE, JOBSET_LEADER, JOBSET_AUTHORIZATION, JOBSET_WEBHOOKS),
    *(*TRAINER_DEFINITIONS, TRAINER_ROLE, TRAINER_WEBHOOKS, *TRAINER_RUNTIMES),
)

MANIFESTS: Final = (
    *(NVIDIA_MANIFEST, MPI_OPERATOR_MANIFEST, *KUEUE_CRDS, KUEUE_ROLE, KUEUE_WEBHOOKS),
    *TRAINER_MANIFESTS,
)
"""All upstream files that the program may fetch."""
