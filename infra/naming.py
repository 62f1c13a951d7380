"""The only maker of names, tags and labels."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

PROJECT: Final = "gpumpi"
COMPONENT: Final = f"{PROJECT}:infra"
"""First part of a component's type token; a token is part of every URN, so it never changes."""

# --- names -------------------------------------------------------------------------------------------------------------

STACK_NAME_LIMIT: Final = 24
POOL_NAME_LIMIT: Final = 20
"""With the 8 characters that Pulumi adds, names must fit the 63 of a node group and the 64 of an IAM role."""

SYSTEM_POOL: Final = "system"
"""Name of the CPU pool; no GPU pool may have it."""

# --- tags --------------------------------------------------------------------------------------------------------------

STACK_TAG: Final = "gpumpi:stack"
POOL_TAG: Final = "gpumpi:pool"
PLACEMENT_TAG: Final = "gpumpi:placement"
"""On a node group: what `placementGroup: auto` came to when it was made."""
ROLE_TAG: Final = "gpumpi:role"
"""On instances of a plain EC2 cluster: `master` or `worker`. The join service tells the master by it."""
AMI_TAG: Final = "gpumpi:ami"
OPENMPI_TAG: Final = "gpumpi:openmpi"
"""On AMIs that amis/ built: what for, and with which Open MPI."""
COST_TAG: Final = "cost-center"
MANAGED_TAG: Final = "managed-by"
BASE_TAGS: Final = (STACK_TAG, COST_TAG, MANAGED_TAG)
"""Every resource that can carry tags carries these."""

AUTOSCALER_TAG: Final = "k8s.io/cluster-autoscaler"
"""Prefix of the tags by which the cluster autoscaler finds groups and learns what their nodes will be like."""

# --- labels and taints -------------------------------------------------------------------------------------------------

POOL_LABEL: Final = "gpumpi.io/pool"
GPU_LABEL: Final = "nvidia.com/gpu.present"
EFA_LABEL: Final = "vpc.amazonaws.com/efa.present"
ACCELERATOR_LABEL: Final = "k8s.amazonaws.com/accelerator"
"""Without it the autoscaler adds nodes again while the first one's device plugin is still starting."""

GPU_RESOURCE: Final = "nvidia.com/gpu"
EFA_RESOURCE: Final = "vpc.amazonaws.com/efa"
HUGEPAGES_RESOURCE: Final = "hugepages-2Mi"

# --- who runs jobs -----------------------------------------------------------------------------------------------------

LOGIN_USER: Final = "mpiuser"
"""Who runs jobs on plain EC2 clusters; the AMI and job images have that user."""

JOB_NAMESPACE: Final = "mpi-jobs"
JOB_SERVICE_ACCOUNT: Final = "mpi-job"
KEY_BUCKET_CONFIG: Final = "gpumpi-key-bucket"
"""ConfigMap in each namespace for jobs: the bucket through which its pods exchange public keys."""
KEY_BUCKET_KEY: Final = "bucket"

NAMESPACE_LIMIT: Final = 20
"""A namespace's name is part of its job role's, of which IAM takes 64 characters."""

JOBS_LABEL: Final = "gpumpi.io/jobs"
"""On namespaces for jobs, with the value `true`: what the queue looks after, and nothing else."""

QUEUE_NAME: Final = "default"
"""Of the queue in each namespace for jobs. Kueue takes a job that names no queue into the one that is called so."""

PRIORITIES: Final = {"job-low": 100, "job-normal": 1000, "job-high": 10000}
"""Priority classes for jobs. Above -10: the autoscaler makes no nodes for what is expendable."""

PLATFORM_NAMESPACE: Final = "gpumpi-system"
MPI_OPERATOR_NAMESPACE: Final = "mpi-operator"
QUEUE_NAMESPACE: Final = "kueue-system"
AUTOSCALER_ACCOUNT: Final = "cluster-autoscaler"
"""The autoscaler's service account, which has its role in AWS."""

SHARED_CLAIM: Final = "shared"
"""Name of the claim on the shared file system in each namespace for jobs, and of the volume in jobs."""
SHARED_VOLUME_LABEL: Final = "gpumpi.io/shared-volume"
"""On the volume behind such a claim: the namespace whose jobs share it."""

KUBE_SYSTEM: Final = "kube-system"
"""Where privileged agents of nodes run."""

JOB_LABEL: Final = "gpumpi.io/job"
LAUNCHER_LABEL: Final = "gpumpi.io/launcher"
ROLE_LABEL: Final = "gpumpi.io/role"

ANYWHERE: Final = "0.0.0.0/0"

USER_ID: Final = 1000
GROUP_ID: Final = 1000
"""The one identity that job images, login users and the shared file system's access point agree on."""

SHARED_DIRECTORY: Final = "/gpumpi"
"""The directory of the file system that jobs see as its root; several clusters on one file system share it."""


@dataclass(frozen=True)
class Taint:
    """Keeps pods away that do not tolerate it."""

    key: str
    value: str
    effect: str = "NoSchedule"


GPU_TAINT: Final = Taint("nvidia.com/gpu", "true")


@dataclass(frozen=True)
class Naming:
    """Names and tags of one stack."""

    stack: str
    cost_center: str | None = None
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def cluster(self) -> str:
        """The EKS cluster's name; fixed, since kubeconfigs, tags and policies of others contain it."""
        return f"{PROJECT}-{self.stack}"

    @property
    def workers(self) -> str:
        """The auto scaling group of a plain EC2 cluster; fixed, since its nodes are told and their policy names it."""
        return f"{self.cluster}-workers"

    @property
    def control_plane_logs(self) -> str:
        """Where EKS writes; it leaves no choice: https://docs.aws.amazon.com/eks/latest/userguide/control-plane-logs.html"""
        return f"/aws/eks/{self.cluster}/cluster"

    @property
    def flow_logs(self) -> str:
        return f"/{PROJECT}/{self.stack}/flow-logs"

    def name(self, part: str) -> str:
        """Name of a component of this stack, and the beginning of its children's names."""
        return f"{self.cluster}-{part}"

    def tags(self, more: Mapping[str, str] | None = None, /, **named: str) -> dict[str, str]:
        """What every resource carries, the user's own tags, then this resource's; the base tags cannot be overridden."""
        base = {STACK_TAG: self.stack, COST_TAG: self.cost_center or self.stack, MANAGED_TAG: "pulumi"}
        return {**self.extra, **named, **(more or {}), **base}


def cluster_tag(cluster: str) -> dict[str, str]:
    """The tag by which EKS's controllers know that a subnet serves the cluster."""
    return {f"kubernetes.io/cluster/{cluster}": "shared"}


PUBLIC_SUBNET_TAG: Final = {"kubernetes.io/role/elb": "1"}
PRIVATE_SUBNET_TAG: Final = {"kubernetes.io/role/internal-elb": "1"}
"""Where load balancers are put: https://docs.aws.amazon.com/eks/latest/userguide/network-load-balancing.html"""


def principal(arn: str) -> str:
    """Resource name of an IAM principal. Names are unique within an account, whatever the path is.

    >>> principal("arn:aws:iam::123456789012:role/team/Admin")
    '123456789012-role-Admin'
    """
    account, resource = arn.split(":")[4:6]
    kind, *_, name = resource.split("/")
    return f"{account}-{kind}-{name}"


def accelerator(manufacturer: str, gpu: str) -> str:
    """Value of the accelerator label, e.g. `nvidia-h100`."""
    return f"{manufacturer}-{gpu}".lower().replace(" ", "-")


def pool_labels(pool: str, *, accelerator: str | None = None, efa: bool = False) -> dict[str, str]:
    """Labels that a pool's nodes are born with."""
    labels = {POOL_LABEL: pool}
    if accelerator is not None:
        labels |= {GPU_LABEL: "true", ACCELERATOR_LABEL: accelerator}
    if efa:
        labels[EFA_LABEL] = "true"
    return labels


def job_labels(job: str, launcher: str | None = None, role: str | None = None) -> dict[str, str]:
    """Labels of everything that belongs to a job; without launcher and role those that select it."""
    more = {LAUNCHER_LABEL: launcher, ROLE_LABEL: role}
    managed = {"app.kubernetes.io/managed-by": PROJECT} if launcher else {}
    return {JOB_LABEL: job, **managed, **{key: value for key, value in more.items() if value}}


def autoscaler_tags(
    cluster: str, *, labels: Mapping[str, str], taints: tuple[Taint, ...], resources: Mapping[str, str]
) -> dict[str, str]:
    """How the autoscaler finds a group, and what a node of it will offer while there is none to look at.

    https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/cloudprovider/aws/README.md
    """
    template = f"{AUTOSCALER_TAG}/node-template"
    return {
        f"{AUTOSCALER_TAG}/enabled": "true",
        f"{AUTOSCALER_TAG}/{cluster}": "owned",
        **{f"{template}/label/{key}": value for key, value in labels.items()},
        **{f"{template}/taint/{taint.key}": f"{taint.value}:{taint.effect}" for taint in taints},
        **{f"{template}/resources/{name}": amount for name, amount in resources.items()},
    }


ZONE_LETTERS: Final = "abcdefgh"
"""Last letters of the availability zones that get subnets."""
