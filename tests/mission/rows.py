"""Features of the five reference systems that this project must match, one per row. A test's marker names its row:

    @pytest.mark.mission("B", "slots and hosts")

`make mission` runs these tests and prints the table; `make test` runs them once, with all other tests.
"""

from dataclasses import dataclass
from typing import Final, Literal

SYSTEMS: Final = {
    "A": "ChainerMN on Kubernetes",
    "B": "Kubernetes with MPI",
    "C": "An EC2 cluster (without Kubernetes)",
    "D": "Horovod on Kubernetes with shared storage",
    "E": "An on-premises GPU cluster with torchrun",
}

Hardware = Literal[
    "pure_nccl",
    "CUDA buffers and NCCL",
    "NVIDIA container runtime",
    "NVIDIA container runtime and kernel modules",
    "containers on hosts",
    "32 GPUs",
    "EFA",
]
"""Hardware that a row may need. The tests cover the part of the feature that works without this hardware; the row's
`elsewhere` command covers the rest.
"""


@dataclass(frozen=True)
class Row:
    system: str
    name: str
    """Name in markers; unique within the system."""
    text: str
    """Feature that must work."""
    command: str
    """Commands that the row's tests run, separated by `; `. Words in capitals are values that the tests choose.

    `tests/mission/test_rows.py` checks the command against the tests. If a row's tests run no program, its
    command is `pytest FILE`.
    """
    needs: Hardware | None = None
    elsewhere: str = ""
    """Command to run on a machine with the hardware."""
    emulated: str = ""
    """How the row's tests emulate AWS or hardware."""


SMALL_NODES: Final = "nodes are real kubelets in network namespaces; their GPUs are simulated"
HOSTS: Final = "instances are hosts in namespaces with their own systemd"
LOCAL_AWS: Final = "AWS is the local AWS"
MOCKS: Final = "the program runs with Pulumi's mocks"
PLUGIN: Final = "NVIDIA's device plugin reads simulated GPUs from an NVML emulator and needs no NVIDIA runtime"
GPU_NODES: Final = (
    "the same on nodes with NVIDIA GPUs; with NVIDIA's plugin and runtime, a kernel ran in a pod on one H200 "
    "(`python3 bench/gpu/one_pod.py --work FOLDER`)"
)
EC2_PROGRAM: Final = "tests/program/test_ec2_cluster.py"

ROWS: Final[tuple[Row, ...]] = (
    # --- A
    Row(
        "A",
        "CUDA-aware image",
        "a job image with CUDA-aware Open MPI, whose build fails unless `ompi_info` reports it",
        "make test-ami",
    ),
    Row(
        "A",
        "keys in a Secret",
        "an SSH key pair in a Secret, generated for the job, never committed",
        "scripts/cluster smoke --launcher standalone; ssh WORKER hostname",
        emulated=SMALL_NODES,
    ),
    Row(
        "A",
        "master and workers",
        "one launcher and N workers with name, image, secret, workers, GPUs, command as parameters: launcher `standalone`",
        "scripts/cluster smoke --launcher standalone",
        emulated=SMALL_NODES,
    ),
    Row(
        "A",
        "hostfile",
        "a hostfile naming every worker, with slots from the GPU count",
        "scripts/cluster submit JOB.yaml --follow; kubectl get configmap NAME",
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
        "pods of a job have no Kubernetes permissions",
        "kubectl auth can-i VERB RESOURCE --as ACCOUNT",
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
        emulated=f"{SMALL_NODES}; on CPUs; the job has 4 steps with 2 images of 32 x 32 per rank",
    ),
    Row(
        "B",
        "every MPI",
        "Open MPI 4 and 5, Intel MPI, MPICH: each runs with its own hostfile format and environment",
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
        "hostfile from a ConfigMap, updated when workers change",
        "scripts/cluster submit JOB.yaml --follow; kubectl get configmap NAME",
        emulated=SMALL_NODES,
    ),
    Row(
        "B",
        "any framework",
        "any framework: nothing in the platform depends on the framework",
        "pytest tests/mission/test_rows.py",
    ),
    # --- C
    Row("C", "network", "new VPC and subnet, or existing ones by id", "pulumi up", emulated=LOCAL_AWS),
    Row(
        "C",
        "key bucket",
        "S3 bucket for exchanging the nodes' public SSH keys at boot",
        "ssh NODE hostname; scripts/cluster submit JOB.yaml --follow",
        emulated=f"{LOCAL_AWS}; {HOSTS}; {SMALL_NODES}",
    ),
    Row(
        "C",
        "placement group",
        "cluster placement group",
        f"pytest {EC2_PROGRAM}",
        emulated=f"{MOCKS}, and nothing is placed",
    ),
    Row(
        "C",
        "master and workers",
        "one head node and N >= 0 workers in an Auto Scaling group",
        "scripts/cluster scale N",
        emulated=f"{LOCAL_AWS}; {HOSTS}",
    ),
    Row(
        "C",
        "login user",
        "a login user, passwordless SSH between all nodes, hostfile in place and kept up to date",
        "ssh NODE hostname; mpirun PROGRAM",
        emulated=f"{LOCAL_AWS}; {HOSTS}",
    ),
    Row(
        "C",
        "EFS",
        "optional EFS, new or existing by id, mounted on all nodes",
        "pulumi up; scripts/cluster run -- COMMAND",
        emulated=f"{LOCAL_AWS}; {HOSTS}; EFS is a folder",
    ),
    Row(
        "C",
        "least privilege",
        "security groups and IAM roles, least privilege",
        f"python3 -c PROGRAM; pytest {EC2_PROGRAM}",
        emulated=f"{LOCAL_AWS}; {HOSTS}; {MOCKS}",
    ),
    Row(
        "C",
        "outputs",
        "outputs: head node's address, bucket, file system ids",
        "pulumi stack output",
        emulated=f"{LOCAL_AWS}; {HOSTS}; EFS is a folder",
    ),
    Row(
        "C",
        "AMI",
        "Packer AMI with CUDA-aware Open MPI and the frameworks, checked during the build by `ompi_info` and by a real run",
        "make test-ami",
        emulated=f"{LOCAL_AWS}; the build host is Debian, without driver and CUDA toolkit",
    ),
    Row(
        "C",
        "MNIST on four nodes",
        "`mpiexec -n 32 -N 8 python train_mnist.py` over 4 nodes",
        "make demo-ec2",
        needs="32 GPUs",
        elsewhere="the same on four nodes with 8 GPUs each: `scripts/cluster run -s STACK -- mpiexec -n 32 -N 8 ...`",
        emulated=f"{LOCAL_AWS}; {HOSTS}; 8 ranks on CPUs: `mpiexec -n 8 -N 2`",
    ),
    # --- D
    Row(
        "D",
        "shared volume",
        "a ReadWriteMany volume for code, data, checkpoints, logs",
        "scripts/cluster submit JOB.yaml",
        emulated=f"{LOCAL_AWS}; {SMALL_NODES}; EFS is a folder",
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
        "access to the data set's bucket through the IAM role of jobs, without keys",
        "scripts/cluster submit JOB.yaml",
        emulated=f"{LOCAL_AWS}; {SMALL_NODES}",
    ),
    Row(
        "D",
        "pre-train step",
        "a pre-train step: `pip install -r`, copy code to the volume",
        "scripts/cluster submit JOB.yaml",
        emulated=SMALL_NODES,
    ),
    Row(
        "D",
        "device plugin",
        "device plugin on the nodes that a selector matches",
        "pulumi up; scripts/cluster smoke",
        needs="NVIDIA container runtime",
        elsewhere=GPU_NODES,
        emulated=f"{SMALL_NODES}; {PLUGIN}",
    ),
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
        "prepare-kubernetes-node.sh; prepare-kubernetes-node.sh --check",
        needs="NVIDIA container runtime and kernel modules",
        elsewhere="`scripts/cluster prepare-node` for a separate machine with a GPU; `--check` reports",
        emulated=HOSTS,
    ),
    Row(
        "E",
        "kubeadm",
        "control-plane init, join, pod network (flannel); the tests run no containers",
        "kubeadm init --config FILE; kubeadm token create --print-join-command; kubectl apply -f FILE",
        needs="containers on hosts",
        elsewhere="the same commands on two machines with cgroup v2",
        emulated=f"{HOSTS}, which cannot start containers: kubeadm's static pods run as services, flannel's pods do not run",
    ),
    Row(
        "E",
        "existing cluster",
        "the same platform and jobs on any existing cluster, by kubeconfig",
        "pulumi up; scripts/cluster smoke --pool POOL",
        emulated=f"{SMALL_NODES}; the cluster is a local EKS cluster without a platform, by its administrator's certificate",
    ),
    Row(
        "E",
        "device plugin",
        "static NVIDIA device plugin",
        "pulumi up; scripts/cluster smoke",
        needs="NVIDIA container runtime",
        elsewhere=GPU_NODES,
        emulated=f"{SMALL_NODES}; {PLUGIN}",
    ),
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
        elsewhere=(
            "the same job on a pool with GPUs, with nccl instead of gloo; the program passed with nccl on one H100 "
            "(`python3 bench/gpu/one_gpu.py --only ddp --logs FOLDER`)"
        ),
        emulated=f"{SMALL_NODES}; gloo on CPUs",
    ),
)

NOT_YET: Final[frozenset[tuple[str, str]]] = frozenset()
"""Rows without a test: `make mission` shows them as missing and fails. When you add a row's first test, remove the row
from this list.
"""


def find_row(system: str, name: str) -> Row:
    """Return a system's row by name. Raise KeyError if there is no such row."""
    return {(row.system, row.name): row for row in ROWS}[system, name]
