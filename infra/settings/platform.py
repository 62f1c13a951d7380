"""`gpumpi:platform`: the software installed into a Kubernetes cluster, new or existing."""

from typing import Annotated, Literal

from pydantic import Field

from infra.config.models import Model, Names
from infra.naming import JOB_NAMESPACE

TransportChoice = Literal["auto", "nccl", "tcp"]
PodSecurity = Literal["restricted", "baseline"]


class JobNamespace(Model):
    """A namespace for jobs, with its Pod Security level."""

    name: str = Field(description="Name of the namespace. Change: creates a namespace and deletes the old one with its jobs.")
    pod_security: PodSecurity = Field(
        "restricted",
        description="Pod Security Standard that Kubernetes enforces in the namespace. `baseline` also admits pods that run as "
        "root, as most public manifests do. Change: in place; running pods are not affected.",
    )


class CommonPlatformSettings(Model):
    """Platform settings for all Kubernetes clusters."""

    device_plugin: bool = Field(True, description="NVIDIA's device plugin, which makes GPUs available to pods. Change: in place.")
    mpi_operator: bool = Field(
        True, description="Kubeflow's MPI operator, for MPIJobs. Change: in place; false deletes all MPIJobs."
    )
    trainer: bool = Field(
        False,
        description="Kubeflow Trainer and JobSet, for TrainJobs and JobSets. Change: in place; false deletes all TrainJobs and "
        "JobSets.",
    )
    node_healing: bool = Field(
        True,
        description="The job controller takes nodes with broken GPUs out of service, and restarts their jobs on other nodes "
        "without counting a failure. Within an hour, this affects at most a fifth of the nodes. Repaired nodes accept jobs "
        "again once all their GPUs work. In existing clusters, broken nodes are only cordoned. Needs EKS's node monitoring "
        "agent, or "
        "another program that reports its node conditions. Change: in place.",
    )
    monitoring: bool = Field(
        False,
        description="Prometheus with alerts, Alertmanager, exporters and dashboards for Grafana, in the namespace "
        "gpumpi-monitoring. Change: in place; false deletes all metrics.",
    )
    remote_write: str | None = Field(
        None,
        description="URL to which Prometheus also sends all metrics: a receiver of its remote-write protocol. Change: in place.",
    )
    remote_write_login: str | None = Field(
        None,
        description=(
            "Name of a Secret in the namespace gpumpi-monitoring whose key `token` contains the receiver's bearer token; you "
            "create it. Change: in place; restarts Prometheus, which loses its metrics."
        ),
    )
    alert_receiver: str | None = Field(
        None,
        description=(
            "Name of a Secret in the namespace gpumpi-monitoring whose key `url` contains the webhook to which Alertmanager "
            "sends alerts; you create it. Without it, alerts are only displayed. Change: in place; restarts Alertmanager."
        ),
    )
    queue: bool = Field(
        True,
        description="Kueue: a job starts only when all of its workers fit. Change: in place, and the stack's jobs run again; "
        "with false, pods start whenever they fit, and two large jobs can block each other forever.",
    )
    queue_order: Literal["strict", "bestEffort"] = Field(
        "strict",
        description="`strict`: jobs start in queue order, even if a later one would fit; `bestEffort`: any job that fits starts. "
        "Change: in place; restarts the queue's controller.",
    )
    start_attempts: int = Field(
        10,
        ge=0,
        description="How often the queue starts a job whose pods are not all ready after 30 minutes, for example because its "
        "image is missing or AWS has no capacity. Between attempts, other jobs may use the nodes, and waiting times grow to an "
        "hour. After the last attempt, the queue stops the job; 0 for no limit. Change: restarts the queue's controller.",
    )
    namespaces: Annotated[tuple[str | JobNamespace, ...], Field(strict=False)] = Field(
        (JOB_NAMESPACE,),
        description="Namespaces for jobs, as names or as `{name, podSecurity}`; the first is the default. "
        "Change: in place; removing one deletes its jobs.",
    )
    image_registry: str | None = Field(
        None,
        description="Prefix of image names, such as `mirror.example.com/all`, for air-gapped VPCs. It applies to the platform's "
        "images and to full names in jobs, but not to images of the stack's own repository: nodes pull those directly. "
        "Change: restarts the platform's pods; affects jobs submitted later; the stack's jobs run again.",
    )
    image_repository: str | None = Field(
        None,
        description="Your repository for short image names, such as `registry.example.com/team`: in jobs, `train:1` then means "
        "`registry.example.com/team/train:1`. Without a repository, jobs with short image names are rejected. "
        "Change: affects jobs submitted later; the stack's jobs run again.",
    )
    image_pull_secrets: Names = Field(
        (),
        description=(
            "Names of the Secrets that nodes use to pull job images; each job namespace must contain them. A job can specify "
            "others. Change: affects jobs submitted later; the stack's jobs run again."
        ),
    )
    manifest_mirror: str | None = Field(
        None,
        description="Directory or https URL with the upstream manifests, laid out like raw.githubusercontent.com; by default the "
        "value of the environment variable GPUMPI_MANIFEST_MIRROR. Change: no effect, because manifests are verified by hash.",
    )
    cpu_request_factor: float = Field(
        1.0,
        description="Multiplier for the CPU requests of the platform and jobs; below 1 only where small nodes are used in "
        "place of large ones. Change: restarts the platform's pods; affects jobs submitted later; the stack's jobs run again.",
    )

    @property
    def job_namespaces(self) -> tuple[JobNamespace, ...]:
        """The namespaces for jobs, each with its Pod Security level."""
        return tuple(JobNamespace(name=each) if isinstance(each, str) else each for each in self.namespaces)

    @property
    def namespace_names(self) -> tuple[str, ...]:
        return tuple(namespace.name for namespace in self.job_namespaces)


class ExistingPlatformSettings(CommonPlatformSettings):
    """Platform settings for existing clusters."""

    transport: Literal["tcp", "infiniband"] = Field(
        "tcp",
        description="Network for MPI and NCCL between nodes. `infiniband`: InfiniBand or RoCE on pools with `rdmaResource`, "
        "which pools with GPUs then need; jobs fail instead of using TCP. "
        "Change: affects jobs submitted later; the stack's jobs run again.",
    )


class JobPolicy(Model):
    """Permission for jobs to access a path in an S3 bucket."""

    bucket: str = Field(examples=["datasets"], description="Name of the S3 bucket. Change: in place.")
    path: str = Field(
        "", examples=["digits"], description="Object or folder in the bucket; the whole bucket by default. Change: in place."
    )
    access: Literal["read", "readWrite"] = Field(
        "read", description="`read`: list and get objects; `readWrite`: also put and delete them. Change: in place."
    )
    namespace: str | None = Field(
        None, description="Namespace whose jobs get access; all namespaces of jobs by default. Change: in place."
    )


class PlatformSettings(CommonPlatformSettings):
    """Platform settings for EKS clusters."""

    install: bool | None = Field(
        None,
        description="Whether `pulumi up` installs the platform; by default only if the Kubernetes API has a public endpoint. "
        "With a private endpoint, set `true` only if `pulumi up` runs in a network of `target.endpointAccess.privateCidrs`. "
        "Change: false removes the platform and all jobs, which requires access to the API one last time.",
    )
    image_repositories: bool = Field(
        False,
        description="ECR repositories for job images, named `gpumpi-STACK/IMAGE`: one for each image that this project builds "
        "and for each short image name in the stack's jobs. Short image names refer to these repositories. "
        "Change: in place. ECR deletes only empty repositories: `false` and `pulumi destroy` fail until you delete the images, "
        "for example with `aws ecr delete-repository --force`.",
    )
    job_policies: Annotated[tuple[JobPolicy, ...], Field(strict=False)] = Field(
        (),
        description=(
            "Buckets that jobs may use without AWS keys: their pods get credentials of the namespace's IAM role from EKS Pod "
            "Identity. Buckets with a KMS key also need a key policy that names the role. Change: in place; also applies to "
            "running jobs."
        ),
    )
    job_logs: Literal["volume", "cloudwatch"] = Field(
        "volume",
        description="Where submitted jobs keep their logs. `volume`: on the shared volume, until the job is canceled. "
        "`cloudwatch`: in a log group of CloudWatch Logs, for `target.logRetentionDays`; images need python3 with boto3. "
        "Change: affects jobs submitted later; `volume` deletes the log group with all logs.",
    )
    efa_plugin: bool = Field(
        True,
        description="AWS's EFA device plugin, if a pool has EFA; privileged, as in AWS's chart. Change: in place; without it, no "
        "pod gets EFA.",
    )
    autoscaler: bool = Field(
        True,
        description="The cluster autoscaler scales pools between `minSize` and `maxSize`; `desiredSize` then applies only at "
        "creation. Change: in place; without it, pools scale to their `desiredSize`.",
    )
    node_repair: bool = Field(
        True,
        description="EKS's node auto repair, one node at a time. It replaces nodes that are not ready, or whose network, disks "
        "or kernel fail, after 30 minutes, and repairs broken GPUs after 10 minutes. With `nodeHealing`, it leaves broken GPUs "
        "to the job controller where the autoscaler removes emptied nodes: on pools with GPUs and `minSize: 0`. "
        "Change: in place.",
    )
    idle_minutes: int = Field(10, description="Minutes before the autoscaler removes an idle node. Change: in place.")
    transport: TransportChoice = Field(
        "auto",
        description="Network for MPI and NCCL between nodes. `auto`: both require EFA on pools that have it, and use TCP on "
        "others. `nccl`: NCCL requires EFA, and MPI, which then only starts the ranks, uses TCP. `tcp`: neither uses EFA. "
        "Change: affects jobs submitted later; the stack's jobs run again.",
    )

    @property
    def keeps_logs_in_cloudwatch(self) -> bool:
        return self.job_logs == "cloudwatch"
