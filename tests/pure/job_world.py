"""A small cluster for job tests: one pool of EFA nodes, one of GPU nodes without EFA, and the CPU pool."""

from dataclasses import replace
from typing import Any

from infra.jobs.cluster import (
    ClusterDescription,
    NamespaceDescription,
    PoolDescription,
    TaintDescription,
    VolumeDescription,
)
from infra.jobs.model import Job
from infra.jobs.placed import KeyPair, Manifest, PlacedJob, Storage
from infra.jobs.reading import validate_job
from infra.jobs.render import LAUNCHERS, render_job
from infra.naming import GPU_TAINT, POOL_LABEL

KEYS = KeyPair("the private key\n", "ssh-ed25519 the public key\n")
TAINT = TaintDescription(key=GPU_TAINT.key, value=GPU_TAINT.value, effect=GPU_TAINT.effect)

SYSTEM = PoolDescription(name="system", slots=2, memory_mib=6000, cpu_millis=1500, labels={POOL_LABEL: "system"}, max_size=3)
TRAIN = PoolDescription(
    name="train",
    instance_type="p4d.24xlarge",
    gpus=8,
    slots=8,
    efa=4,
    hugepages_mib=10256,
    memory_mib=1_000_000,
    cpu_millis=95_000,
    labels={POOL_LABEL: "train", "nvidia.com/gpu.present": "true"},
    taints=(TAINT,),
    max_size=4,
    line_rate_gbps=400.0,
    transport="efa",
)
SMALL = PoolDescription(
    name="small",
    instance_type="g5.12xlarge",
    gpus=4,
    slots=4,
    memory_mib=180_000,
    cpu_millis=47_000,
    labels={POOL_LABEL: "small"},
    taints=(TAINT,),
    max_size=2,
)
SHARED = VolumeDescription(name="shared", claim="shared", mount_path="/shared")
JOBS = NamespaceDescription(
    name="mpi-jobs", service_account="mpi-job", queue="jobs", volumes=(SHARED,), priority_classes=("low", "high"), key_bucket=True
)


REPOSITORY = "123456789012.dkr.ecr.us-west-2.amazonaws.com/gpumpi-test"
TEAM = NamespaceDescription(name="team-a", service_account="mpi-job", volumes=(SHARED,))


EVERY_LAUNCHER: dict[str, dict[str, Any]] = {
    **{name: {"launcher": name} for name in LAUNCHERS},
    "standalone with keys on a volume": {"launcher": "standalone", "keyExchange": "volume"},
    "standalone with keys in a bucket": {"launcher": "standalone", "keyExchange": "s3"},
}


def make_cluster(**more: Any) -> ClusterDescription:
    usual = {
        "cluster": "gpumpi-test",
        "pools": (SYSTEM, TRAIN, SMALL),
        "namespaces": (JOBS, TEAM),
        "image_repository": REPOSITORY,
    }
    return ClusterDescription(**{**usual, **more})


def make_job_values(**more: Any) -> dict[str, Any]:
    """Return the values of a valid job file."""
    least = {"name": "mnist", "pool": "small", "workers": 2, "image": "openmpi:5", "command": ["python3", "train.py"]}
    return {**least, **more}


def placed(described: ClusterDescription | None = None, **more: Any) -> PlacedJob:
    return validate_job(make_job_values(**more), described or make_cluster())


def make_job(described: ClusterDescription | None = None, **more: Any) -> Job:
    return placed(described, **more).job


def render_objects(described: ClusterDescription | None = None, storage: Storage | None = None, **more: Any) -> list[Manifest]:
    return render_job(replace(placed(described, **more), storage=storage or Storage()), lambda: KEYS)


def render_manifest(kind: str, described: ClusterDescription | None = None, **more: Any) -> dict[str, Any]:
    """Return the job's first object of a kind."""
    return next(piece for piece in render_objects(described, **more) if piece["kind"] == kind)


def render_pods(
    described: ClusterDescription | None = None, storage: Storage | None = None, **more: Any
) -> dict[str, dict[str, Any]]:
    """Return the job's pod specs, keyed by role."""
    pods_by_role: dict[str, dict[str, Any]] = {}
    for piece in render_objects(described, storage, **more):
        spec = piece.get("spec", {})
        templates = [replica_spec["template"] for replica_spec in spec.get("mpiReplicaSpecs", {}).values()] + [
            spec.get("template")
        ]
        for template in filter(None, templates):
            pods_by_role[template["metadata"]["labels"]["gpumpi.io/role"]] = template["spec"]
    return pods_by_role


def read_environment(pod: dict[str, Any]) -> dict[str, str]:
    return {variable["name"]: variable["value"] for variable in pod["containers"][0]["env"] if "value" in variable}
