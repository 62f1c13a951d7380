"""Names, tags and labels of all resources of a stack. No other module defines names, tags or labels."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

PROJECT: Final = "gpumpi"
COMPONENT: Final = f"{PROJECT}:infra"
"""Prefix of component type tokens. Type tokens are part of every URN, so this value must never change."""

# --- names -------------------------------------------------------------------------------------------------------------

STACK_NAME_LIMIT: Final = 24
POOL_NAME_LIMIT: Final = 20
"""Pulumi appends 8 characters. Node group names have at most 63 characters, IAM role names at most 64."""

SYSTEM_POOL: Final = "system"
"""Reserved name of the CPU pool for system pods."""

VPC_CNI: Final = "vpc-cni"
POD_IDENTITY_AGENT: Final = "eks-pod-identity-agent"
KUBE_PROXY: Final = "kube-proxy"
COREDNS: Final = "coredns"
EFS_CSI_DRIVER: Final = "aws-efs-csi-driver"
FSX_CSI_DRIVER: Final = "aws-fsx-csi-driver"
NODE_MONITORING_AGENT: Final = "eks-node-monitoring-agent"
METRICS_SERVER: Final = "metrics-server"
ADDONS: Final = (
    *(VPC_CNI, POD_IDENTITY_AGENT, KUBE_PROXY, COREDNS, EFS_CSI_DRIVER, FSX_CSI_DRIVER, NODE_MONITORING_AGENT),
    METRICS_SERVER,
)
"""Names of EKS's add-ons that this program installs."""

# --- tags --------------------------------------------------------------------------------------------------------------

STACK_TAG: Final = "gpumpi:stack"
POOL_TAG: Final = "gpumpi:pool"
PLACEMENT_TAG: Final = "gpumpi:placement"
"""Tag of a node group. The tag records how `placementGroup: auto` was resolved when the node group was created."""
ROLE_TAG: Final = "gpumpi:role"
"""Tag of EC2 cluster instances: `HEAD_NODE` or `WORKER`. The join service identifies the head node by this tag."""
HEAD_NODE: Final = "master"
WORKER: Final = "worker"
"""Roles of EC2 cluster nodes. The head node keeps the name `master`, because users' state (URNs, tags), IAM role names
and published AMIs contain it."""
AMI_TAG: Final = "gpumpi:ami"
OPENMPI_TAG: Final = "gpumpi:openmpi"
SOURCE_TAG: Final = "gpumpi:source"
"""Tags of AMIs built by amis/: the kind of node, the Open MPI version, and the name of the base AMI."""
COST_TAG: Final = "cost-center"
MANAGED_TAG: Final = "managed-by"
BASE_TAGS: Final = (STACK_TAG, COST_TAG, MANAGED_TAG)
"""Tags of every taggable resource."""

ORDER_TAG: Final = "gpumpi:order"
"""Tag of a bought Capacity Block, unique for each purchase. It identifies the block if AWS's answer is lost."""

AUTOSCALER_TAG: Final = "k8s.io/cluster-autoscaler"
"""Prefix of the tags that let the cluster autoscaler find node groups and learn the resources of their future nodes."""

# --- labels and taints -------------------------------------------------------------------------------------------------

POOL_LABEL: Final = "gpumpi.io/pool"
GPU_LABEL: Final = "nvidia.com/gpu.present"
EFA_LABEL: Final = "vpc.amazonaws.com/efa.present"
ACCELERATOR_LABEL: Final = "k8s.amazonaws.com/accelerator"
"""Without this label, the autoscaler adds more nodes while the first node's device plugin is still starting."""
INSTANCE_TYPE_LABEL: Final = "node.kubernetes.io/instance-type"
ZONE_LABEL: Final = "topology.kubernetes.io/zone"
CAPACITY_LABEL: Final = "eks.amazonaws.com/capacityType"
TAKEN_OUT_ANNOTATION: Final = "gpumpi.io/taken-out"
"""Annotation of a node that the job controller has taken out of service: when, why, and the state of its repair."""

EMULATED_LABEL: Final = "gpumpi.io/emulated-devices"
"""Label of nodes whose GPUs and EFA interfaces exist only in the reports of device plugins. The label's value is
`true`. Only a node emulator sets this label. On all other nodes, the smoke job requires device files and a driver.
"""

EMULATED_DEVICES_FILE: Final = "/usr/lib/ec2-hardware/emulated-devices.json"
"""File in which hosts of the local cloud declare that they have no GPUs and no EFA interfaces, with the reason."""

GPU_RESOURCE: Final = "nvidia.com/gpu"
EFA_RESOURCE: Final = "vpc.amazonaws.com/efa"
HUGEPAGES_RESOURCE: Final = "hugepages-2Mi"
RDMA_PREFIX: Final = "rdma/"
"""Prefix of the resources of RDMA device plugins: https://github.com/Mellanox/k8s-rdma-shared-dev-plugin"""

# --- jobs --------------------------------------------------------------------------------------------------------------

LOGIN_USER: Final = "mpiuser"
"""User that runs jobs on EC2 clusters. The user exists in the AMI and the job images."""

JOB_NAMESPACE: Final = "mpi-jobs"
JOB_SERVICE_ACCOUNT: Final = "mpi-job"
KEY_BUCKET_CONFIG: Final = "gpumpi-key-bucket"
"""ConfigMap in each job namespace with the name of the bucket through which pods exchange public keys."""
KEY_BUCKET_KEY: Final = "bucket"

WORKDIR_KEYS: Final = "workdirs"
"""Prefix in the key bucket for the folders that `submit` uploads for jobs without a shared volume."""
WORKDIR_DAYS: Final = 30
"""Days to keep the files that `submit` sends: on a volume, after their job was deleted; in the bucket, after the
upload."""

NAMESPACE_LIMIT: Final = 20
"""Maximum length of a job namespace's name, which is part of an IAM role name of at most 64 characters."""

JOBS_LABEL: Final = "gpumpi.io/jobs"
"""Label of job namespaces, with the value `true`. The queue manages only these namespaces."""

QUEUE_NAME: Final = "default"
"""Name of the queue in each job namespace. Kueue uses the queue with this name for jobs that specify no queue."""

PRIORITIES: Final = {"job-low": 100, "job-normal": 1000, "job-high": 10000}
"""Priority classes for jobs. Their values are above -10, because the autoscaler adds no nodes for pods below that cutoff."""

PLATFORM_NAMESPACE: Final = "gpumpi-system"
MPI_OPERATOR_NAMESPACE: Final = "mpi-operator"
QUEUE_NAMESPACE: Final = "kueue-system"
JOBSET_NAMESPACE: Final = "jobset-system"
TRAINER_NAMESPACE: Final = "kubeflow-system"
MONITORING_NAMESPACE: Final = "gpumpi-monitoring"
QUEUE_GROUP: Final = "kueue.x-k8s.io"
QUEUE_LABEL: Final = f"{QUEUE_GROUP}/queue-name"
"""Label with which a job enters a queue."""
PRIORITY_LABEL: Final = f"{QUEUE_GROUP}/priority-class"
AUTOSCALER_ACCOUNT: Final = "cluster-autoscaler"
"""Service account of the autoscaler, which has an IAM role."""

SHARED_CLAIM: Final = "shared"
"""Name of the PersistentVolumeClaim for the shared file system in each job namespace, and of the volume in jobs."""
VOLUME_LABEL: Final = "gpumpi.io/{claim}-volume"
"""Label of the PersistentVolume bound to such a claim. The label's value is the namespace of the jobs that share the
volume."""


@dataclass(frozen=True)
class StorageKind:
    """Names of a kind of shared file system."""

    setting: str
    """Key below `gpumpi:storage`."""
    title: str
    claim: str
    """Name of the PersistentVolumeClaim in each job namespace, and of the volume in jobs."""
    driver: str
    """EKS add-on with the CSI driver."""


EFS: Final = StorageKind("efs", "EFS", SHARED_CLAIM, EFS_CSI_DRIVER)
LUSTRE: Final = StorageKind("fsx", "FSx for Lustre", "fsx", FSX_CSI_DRIVER)
STORAGE_KINDS: Final = (EFS, LUSTRE)

KUBE_SYSTEM: Final = "kube-system"
"""Namespace of privileged node agents."""

JOB_LABEL: Final = "gpumpi.io/job"
LAUNCHER_LABEL: Final = "gpumpi.io/launcher"
ROLE_LABEL: Final = "gpumpi.io/role"
MPI_JOB_LABEL: Final = "training.kubeflow.org/job-name"
MPI_ROLE_LABEL: Final = "training.kubeflow.org/job-role"
"""Labels that mpi-operator sets on the pods of any MPIJob. The training operator sets the first one, too."""
BATCH_JOB_LABEL: Final = "batch.kubernetes.io/job-name"
COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
"""Label and annotation that Kubernetes' Job controller sets on the pods of an indexed Job."""
POLICY_ANNOTATION: Final = "gpumpi.io/policy"
"""Annotation on a job's main object that configures how the job controller manages the job."""
RECORD_LABEL: Final = "gpumpi.io/record"
"""Label of a job's record. Its value is the job's name. Records do not have the label of the job's objects, because those
are deleted with the job."""
RECORD_KEY: Final = "record.json"
HELD_QUEUE: Final = "held-until-setup-ends"
"""Queue of jobs whose `setup` has not succeeded. The queue does not exist, so Kueue does not admit these jobs."""

ANYWHERE: Final = "0.0.0.0/0"

USER_ID: Final = 1000
GROUP_ID: Final = 1000
"""User ID and group ID of job images, login users and the shared file system's access point."""

SHARED_DIRECTORY: Final = "/gpumpi"
"""Directory of the shared file system that jobs see as its root. Clusters with the same file system share this
directory."""


@dataclass(frozen=True)
class Taint:
    """A node taint."""

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
        """Name of the cluster. The name has no random suffix, because kubeconfigs, tags and policies outside this stack
        contain it."""
        return f"{PROJECT}-{self.stack}"

    @property
    def workers(self) -> str:
        """Name of the workers' Auto Scaling group. The name has no random suffix, because user data and an IAM policy
        contain it."""
        return f"{self.cluster}-workers"

    @property
    def control_plane_logs(self) -> str:
        """Log group of the control plane. EKS chooses the log group's name:
        https://docs.aws.amazon.com/eks/latest/userguide/control-plane-logs.html"""
        return f"/aws/eks/{self.cluster}/cluster"

    @property
    def flow_logs(self) -> str:
        return f"/{PROJECT}/{self.stack}/flow-logs"

    @property
    def job_logs(self) -> str:
        return f"/{PROJECT}/{self.stack}/jobs"

    def name(self, part: str) -> str:
        """Return the name of a component of this stack. The component's children use this name as a prefix."""
        return f"{self.cluster}-{part}"

    def tags(self, more: Mapping[str, str] | None = None, /, **named: str) -> dict[str, str]:
        """Return the user's tags, the tags of this resource and the base tags. Base tags cannot be overridden."""
        base = {STACK_TAG: self.stack, COST_TAG: self.cost_center or self.stack, MANAGED_TAG: "pulumi"}
        return {**self.extra, **named, **(more or {}), **base}


def build_cluster_tag(cluster: str) -> dict[str, str]:
    """Return the tag that marks a subnet as part of the cluster for EKS's controllers."""
    return {f"kubernetes.io/cluster/{cluster}": "shared"}


PUBLIC_SUBNET_TAG: Final = {"kubernetes.io/role/elb": "1"}
PRIVATE_SUBNET_TAG: Final = {"kubernetes.io/role/internal-elb": "1"}
"""Tags of subnets for load balancers: https://docs.aws.amazon.com/eks/latest/userguide/network-load-balancing.html"""


def build_principal_resource_name(arn: str) -> str:
    """Return the Pulumi resource name for an IAM principal. Principal names are unique in an account, regardless of
    path.

    >>> build_principal_resource_name("arn:aws:iam::123456789012:role/team/Admin")
    '123456789012-role-Admin'
    """
    account, resource = arn.split(":")[4:6]
    kind, *_, name = resource.split("/")
    return f"{account}-{kind}-{name}"


def format_accelerator(manufacturer: str, gpu: str) -> str:
    """Return the value of the accelerator label, such as `nvidia-h100`."""
    return f"{manufacturer}-{gpu}".lower().replace(" ", "-")


def build_pool_labels(pool: str, *, accelerator: str | None = None, efa: bool = False) -> dict[str, str]:
    """Return the labels with which a pool's nodes register in Kubernetes."""
    labels = {POOL_LABEL: pool}
    if accelerator is not None:
        labels |= {GPU_LABEL: "true", ACCELERATOR_LABEL: accelerator}
    if efa:
        labels[EFA_LABEL] = "true"
    return labels


def build_job_labels(job: str, launcher: str | None = None, role: str | None = None) -> dict[str, str]:
    """Return the labels of a job's objects. Without `launcher` and `role`, return the labels that select all objects of
    the job."""
    more = {LAUNCHER_LABEL: launcher, ROLE_LABEL: role}
    managed = {"app.kubernetes.io/managed-by": PROJECT} if launcher else {}
    return {JOB_LABEL: job, **managed, **{key: value for key, value in more.items() if value}}


def build_autoscaler_tags(
    cluster: str, *, labels: Mapping[str, str], taints: tuple[Taint, ...], resources: Mapping[str, str]
) -> dict[str, str]:
    """Return the tags by which the autoscaler finds a group and, at size 0, learns the resources of its future nodes.

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
