"""What the five systems do that this project must equal: a row each. Tests anywhere say which row they prove:

    @pytest.mark.mission("B", "slots and hosts")

`make mission` runs those and prints the table; `make test` runs them with all others, once.
"""

from dataclasses import dataclass
from typing import Final, Literal

SYSTEMS: Final = {
    "A": "ChainerMN on Kubernetes",
    "B": "Kubernetes with MPI",
    "C": "A cluster of plain EC2 instances",
    "D": "Horovod on Kubernetes with shared storage",
    "E": "An on-premises GPU cluster with torchrun",
}

Hardware = Literal["pure_nccl", "CUDA buffers and NCCL", "NVIDIA container runtime", "EFA", "kernel modules"]
"""All that a row may lack here. Its tests then are a check of what runs below that, and its command proves the rest elsewhere."""


@dataclass(frozen=True)
class Row:
    system: str
    name: str
    """As markers call it; unique in the system."""
    text: str
    """What must work."""
    command: str
    """By which a user sees it."""
    needs: Hardware | None = None
    elsewhere: str = ""
    """The command to run where the hardware is."""
    emulated: str = ""
    """What stands in for AWS or hardware while its tests run here."""


SMALL_NODES: Final = "nodes are real kubelets in network namespaces; their GPUs are a device plugin's names"
HOSTS: Final = "instances are hosts in namespaces with a systemd of their own"
LOCAL_AWS: Final = "AWS is the local one"

ROWS: Final[tuple[Row, ...]] = (
    # --- A
    Row(
        "A",
        "CUDA-aware image",
        "a job image with CUDA-aware Open MPI, whose build fails unless `ompi_info` says so",
        "python -m localcloud.images; packer build amis",
    ),
    Row(
        "A",
        "keys in a Secret",
        "an SSH key pair held in a Secret, made for the job, never committed",
        "scripts/cluster submit JOB.yaml",
        emulated=SMALL_NODES,
    ),
    Row(
        "A",
        "master and workers",
        "one master and N workers; name, image, secret, workers, GPUs, command as parameters: launcher `openmpi`",
        "scripts/cluster smoke --launcher openmpi",
        emulated=SMALL_NODES,
    ),
    Row(
        "A",
        "hostfile",
        "a hostfile naming every worker, with slots from the GPU count",
        "scripts/cluster smoke",
        emulated=SMALL_NODES,
    ),
    Row(
        "A",
        "chainermn-mnist",
        "`mpiexec ... train_mnist.py -g` with ChainerMN: epochs with loss and accuracy; equal weights on all ranks",
        "scripts/cluster submit workloads/chainermn-mnist/job.yaml --follow",
        needs="pure_nccl",
        elsewhere="the same job on a pool with GPUs, with `--communicator pure_nccl -g`",
        emulated=f"{SMALL_NODES}; communicator `naive` on CPUs",
    ),
    Row(
        "A",
        "rights",
        "a service account that may only read pods",
        "kubectl auth can-i --list --as system:serviceaccount:mpi-jobs:NAME",
        emulated=SMALL_NODES,
    ),
    # --- B
    Row(
        "B",
        "mpi-operator",
        "mpi-operator installed; MPIJob v2beta1 with launcher and workers",
        "scripts/cluster smoke",
        emulated=SMALL_NODES,
    ),
    Row(
        "B",
        "tensorflow-benchmarks",
        "the TensorFlow benchmark as a job that prints total images/s",
        "scripts/cluster submit workloads/tensorflow-benchmarks/job.yaml --follow",
        emulated=f"{SMALL_NODES}; on CPUs",
    ),
    Row(
        "B",
        "every MPI",
        "Open MPI 4 and 5, Intel MPI, MPICH: the right hostfile format and environment for each; each run",
        "scripts/cluster smoke --mpi Intel",
        emulated=SMALL_NODES,
    ),
    Row(
        "B",
        "slots and hosts",
        "slots per worker, `-np`, `-npernode`, `-npersocket`, run on a subset of hosts",
        "scripts/cluster submit JOB.yaml --follow",
        emulated=SMALL_NODES,
    ),
    Row(
        "B",
        "hostfile kept right",
        "hostfile from a ConfigMap, kept right when workers change",
        "scripts/cluster submit JOB.yaml --follow",
        emulated=SMALL_NODES,
    ),
    Row("B", "any framework", "any framework: nothing in the platform knows the framework", "scripts/cluster submit JOB.yaml"),
    # --- C
    Row("C", "network", "new VPC and subnet, or existing ones by id", "pulumi up", emulated=LOCAL_AWS),
    Row(
        "C",
        "key bucket",
        "S3 bucket through which the nodes exchange public SSH keys at boot",
        "scripts/cluster ssh -s STACK",
        emulated=f"{LOCAL_AWS}; {HOSTS}",
    ),
    Row(
        "C",
        "placement group",
        "cluster placement group",
        "pulumi up",
        emulated=f"{LOCAL_AWS}: it records the group, nothing is placed",
    ),
    Row(
        "C",
        "master and workers",
        "one master and N >= 0 workers in an autoscaling group",
        "scripts/cluster scale N -s STACK",
        emulated=f"{LOCAL_AWS}; {HOSTS}",
    ),
    Row(
        "C",
        "login user",
        "a login user, passwordless SSH between all nodes, hostfile in place and kept up to date",
        "scripts/cluster run -s STACK -- mpiexec hostname",
        emulated=HOSTS,
    ),
    Row(
        "C",
        "EFS",
        "EFS optional: new, or existing by id, mounted on all nodes",
        "pulumi up",
        emulated=f"{HOSTS}; EFS is a folder",
    ),
    Row("C", "least privilege", "security groups and IAM roles, least privilege", "pulumi up", emulated=LOCAL_AWS),
    Row("C", "outputs", "outputs: master's address, bucket, file system ids", "pulumi stack output -s STACK", emulated=LOCAL_AWS),
    Row(
        "C",
        "AMI",
        "Packer AMI with CUDA-aware Open MPI and the frameworks, checked during the build by `ompi_info` and by a real run",
        "make test-ami",
        emulated=f"{LOCAL_AWS}; the host that builds is Debian, without driver and CUDA toolkit",
    ),
    Row(
        "C",
        "MNIST on four nodes",
        "`mpiexec -n 32 -N 8 python train_mnist.py` over 4 nodes",
        "make demo-ec2",
        emulated=f"{HOSTS}, two ranks each, on CPUs",
    ),
    # --- D
    Row(
        "D",
        "shared volume",
        "a ReadWriteMany volume that holds code, data, checkpoints, logs",
        "scripts/cluster submit JOB.yaml",
        emulated=f"{SMALL_NODES}; EFS is a folder",
    ),
    Row(
        "D",
        "keys on the volume",
        "SSH keys generated by an init container onto that volume; sshd on port 2222",
        "scripts/cluster submit JOB.yaml",
        emulated=SMALL_NODES,
    ),
    Row(
        "D",
        "horovod-mnist",
        "one primary and N workers; `horovodrun -np N -H host:slots,...` generated",
        "scripts/cluster submit workloads/horovod-mnist/job.yaml --follow",
        emulated=f"{SMALL_NODES}; on CPUs",
    ),
    Row(
        "D",
        "credentials",
        "data set credentials and endpoint from a Secret as environment",
        "scripts/cluster submit JOB.yaml",
        emulated=SMALL_NODES,
    ),
    Row(
        "D",
        "pre-train step",
        "a pre-train step: `pip install -r`, copy code to the volume",
        "scripts/cluster submit JOB.yaml",
        emulated=SMALL_NODES,
    ),
    Row("D", "device plugin", "device plugin on the nodes a selector names", "pulumi up", emulated=SMALL_NODES),
    Row(
        "D",
        "checkpoints",
        "rank 0 alone saves checkpoints; a restarted job resumes from the last one",
        "scripts/cluster submit workloads/horovod-mnist/job.yaml --follow",
        emulated=SMALL_NODES,
    ),
    # --- E
    Row(
        "E",
        "node preparation",
        "node preparation for kubeadm: kernel modules, sysctl, swap, containerd with the nvidia runtime, kubelet; idempotent",
        "scripts/cluster prepare-node",
        needs="kernel modules",
        elsewhere="the same on a machine of its own; `--check` reports",
        emulated=HOSTS,
    ),
    Row(
        "E",
        "kubeadm",
        "control-plane init, join, pod network (flannel)",
        "kubeadm init; kubeadm join",
        needs="kernel modules",
        elsewhere="the same commands on two machines with control groups of version 2",
        emulated=f"{HOSTS}, which start no containers: kubeadm's static pods run as services, flannel's pods do not run",
    ),
    Row(
        "E",
        "existing cluster",
        "any existing cluster by kubeconfig gets the same platform and the same jobs",
        "pulumi up -s 09-on-premises",
        emulated=f"{SMALL_NODES}; the cluster is one of the local AWS without a platform, by its administrator's certificate",
    ),
    Row("E", "device plugin", "static NVIDIA device plugin", "pulumi up", emulated=SMALL_NODES),
    Row(
        "E",
        "torchrun",
        "headless Service, Indexed Job and `torchrun` with JOB_COMPLETION_INDEX, MASTER_ADDR, NNODES, GPUs per node",
        "scripts/cluster submit JOB.yaml",
        emulated=SMALL_NODES,
    ),
    Row(
        "E",
        "pytorch-ddp",
        "a PyTorch DDP example that trains and saves",
        "scripts/cluster submit workloads/pytorch-ddp/job.yaml --follow",
        needs="CUDA buffers and NCCL",
        elsewhere="the same job on a pool with GPUs: nccl instead of gloo",
        emulated=f"{SMALL_NODES}; gloo on CPUs",
    ),
)

NOT_YET: Final[frozenset[tuple[str, str]]] = frozenset()
"""Rows that no test proves yet: `make mission` shows them as missing, and fails. A row leaves this list with its first test."""


def row_of(system: str, name: str) -> Row:
    """Raises KeyError."""
    return {(row.system, row.name): row for row in ROWS}[system, name]
