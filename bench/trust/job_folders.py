"""Surface: ConfigMaps that record folders, logs and jobs -> `delete`, `cancel`, `logs`, `submit`, `jobs` and `goodput`.

The verbs run with an administrator's permissions. The judge looks at every request of the verbs.
"""

import contextlib
import io
from collections.abc import Iterator, Sequence
from random import Random
from subprocess import CompletedProcess
from typing import Any, Final
from unittest import mock

from bench.trust.inputs import LABELS, NAMES, VICTIM, draw_document_text, draw_text
from bench.trust.job_records import ATTACKER, build_record
from bench.trust.judge import Judge
from cli import console
from cli.clusters import pod_streams
from cli.errors import CommandError
from cli.jobs import objects, records
from cli.jobs.workdir import in_bucket, in_cluster
from infra.jobs import files
from infra.jobs.cluster import ClusterDescription, NamespaceDescription, PoolDescription, VolumeDescription
from infra.jobs.reading import validate_job
from infra.naming import JOB_LABEL, RECORD_KEY, RECORD_LABEL, ROLE_LABEL

Object = dict[str, Any]
BATCH: Final = 20
NAME, GOOD, ID = "train", "good", "0123abcd"
BUCKET, ACCOUNT = "gpumpi-test-keys", "123456789012"
_POOL: Final = PoolDescription(name="train", gpus=8, slots=8, memory_mib=100_000, cpu_millis=90_000, max_size=4)
_SHARED: Final = VolumeDescription(name="shared", claim="shared", mount_path="/shared")
CLUSTER: Final = ClusterDescription(
    cluster="gpumpi-test",
    pools=(_POOL,),
    namespaces=tuple(
        NamespaceDescription(name=name, service_account="mpi-job", volumes=(_SHARED,)) for name in (ATTACKER, VICTIM)
    ),
    region="us-west-2",
    bucket=BUCKET,
    account=ACCOUNT,
)
_VALUES: Final = {
    "name": NAME,
    "namespace": ATTACKER,
    "pool": "train",
    "workers": 1,
    "image": "docker.io/library/openmpi:5",
    "command": ["true"],
}
FOLDER_DATA: Final = {
    "id": ID,
    "volume": "shared",
    "pool": "train",
    "image": "docker.io/library/openmpi:5",
    "priority": "",
    "imagePullSecrets": "a",
}


class Cluster:
    """Cluster with ConfigMaps in team-a. It records what the verbs create, delete and run."""

    namespace, server = ATTACKER, "https://example.com"

    def __init__(self, config_maps: Sequence[Object]) -> None:
        self.config_maps = list(config_maps)
        self.created: list[Object] = []
        self.deleted: list[tuple[str, str, str]] = []
        self.commands: list[tuple[str, Sequence[str]]] = []

    def description(self) -> ClusterDescription:
        return CLUSTER

    def list(self, kind: str, namespace: str | None = None, selector: Any = None, **_: Any) -> list[Object]:
        if kind == "Pod" and selector and in_cluster.JOB_NAME_LABEL in selector:
            status = {"containerStatuses": [{"name": "files", "state": {"running": {}}}]}
            return [{"metadata": {"name": "helper", "namespace": namespace}, "status": status}]
        listed = self.config_maps if kind == "ConfigMap" else []
        return [item for item in listed if (selector or {}).items() <= item["metadata"]["labels"].items()]

    def list_labeled(self, kind: str, label: str, namespace: str | None) -> Sequence[Object]:
        key, _, value = label.partition("=")
        labeled = [(item, item["metadata"]["labels"].get(key)) for item in self.config_maps]
        return [item for item, own in labeled if own is not None and value in ("", own)]

    def find(self, kind: str, name: str, namespace: str) -> None:
        return None

    def create(self, manifest: Object) -> None:
        self.created.append(manifest)

    def delete(self, kind: str, name: str, namespace: str) -> None:
        self.deleted.append((kind, name, namespace))

    def run_command(
        self, _: Any, where: pod_streams.Container, words: Sequence[str], stdin: Any = None
    ) -> "CompletedProcess[bytes]":
        self.commands.append((where.namespace, words))
        return CompletedProcess(words, 0, b"/train-worker-0\n line\n", b"")


class S3:
    """Records the objects that the verbs delete."""

    def __init__(self) -> None:
        self.deleted: list[Object] = []

    def delete_object(self, **call: Any) -> None:
        self.deleted.append(call)


def build_folder_record(name: str) -> Object:
    """Return the valid record of a job's folder."""
    placed = validate_job({**_VALUES, "name": name, "launcher": "standalone", "volumes": [{"name": "shared"}]}, CLUSTER)
    record = files.build_folder_record(placed, ID)
    return {**record, "metadata": {**record["metadata"], "creationTimestamp": "2026-01-01T00:00:00Z"}}


def draw_config_map(random: Random, number: int) -> Object:
    """Return a ConfigMap that a user of team-a can write."""
    data: dict[str, str] = {}
    labels = {JOB_LABEL: random.choice((NAME, NAME, *LABELS)), ROLE_LABEL: random.choice(("files", "files", *LABELS))}
    match random.randrange(4):
        case 0:
            labels[RECORD_LABEL] = random.choice((NAME, *LABELS))
            data = {RECORD_KEY: draw_document_text(random, build_record(random.choice((ATTACKER, VICTIM))))}
        case 1:
            folder = random.choice((ATTACKER, VICTIM, draw_text(random)))
            digest, name = random.choice(("0" * 64, draw_text(random))), random.choice((ID, draw_text(random)))
            key = f"workdirs/{folder}/{digest}/{name}.tar.gz"
            data = {in_bucket.KEY: random.choice((key, key, draw_text(random)))}
        case _:
            data = dict(FOLDER_DATA)
            for _ in range(random.randrange(1, 4)):
                data[random.choice((*FOLDER_DATA, "helper.json", "remover.json", "bucket", "region"))] = draw_text(random)
    metadata = {"name": f"{random.choice(NAMES)[:200]}-{number}", "namespace": ATTACKER, "uid": f"uid-{number}", "labels": labels}
    return {
        "metadata": {**metadata, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "data": random.choice((data, data, data, None)),
    }


def list_verbs(cluster: Any) -> Iterator[Any]:
    """Yield the outcome of each verb with the ConfigMaps of a namespace."""
    yield lambda: in_cluster.remove_workdir(cluster, ATTACKER, NAME)
    yield lambda: in_cluster.remove_workdir(cluster, ATTACKER, GOOD)
    yield lambda: in_cluster.read_logs_on_volume(cluster, ATTACKER, NAME)
    yield lambda: in_cluster.remove_expired_files(cluster, ATTACKER)
    yield lambda: objects.list_jobs(cluster, ATTACKER)
    yield lambda: [record.as_json(record.key[2]) for record in records.list_records(cluster, None)]
    yield lambda: list(records.format_hang_report(records.find_last_hang(cluster, ATTACKER, NAME)))


def judge_job(judge: Judge, manifest: Object) -> None:
    """Report an object that is not exactly a helper Job of team-a: all that a record may choose are the values that its own
    user could put into a job file."""
    metadata, kind = manifest.get("metadata", {}), manifest.get("kind")
    judge.require(metadata.get("namespace") == ATTACKER, "crossed", f"created {kind} in {metadata.get('namespace')!r}")
    if kind != "Job" or metadata.get("labels", {}).get(ROLE_LABEL) != "files":
        judge.report("executed", f"created {manifest}")
        return
    pod = manifest["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    is_own = container["command"][:3] in (["/bin/sh", "-c", files._REMOVE], ["/bin/sh", "-c", files._WAIT])
    judge.require(is_own, "executed", f"command {container['command']}")
    folder = container["command"][4]
    inside = folder.isdigit() or (folder.startswith(f"/shared/{files.FOLDER}/{ATTACKER}/") and ".." not in folder)
    judge.require(inside, "crossed", f"folder {folder!r}")
    judge.require(pod.get("automountServiceAccountToken") is False, "executed", "a helper pod with a token")
    judge.require(not container.get("securityContext", {}).get("privileged"), "executed", "a privileged helper pod")
    judge.require(all("hostPath" not in volume for volume in pod.get("volumes", ())), "executed", "a helper pod with a host path")


def judge_requests(judge: Judge, cluster: Cluster, s3: S3) -> None:
    for manifest in cluster.created:
        judge_job(judge, manifest)
    own = {item["metadata"]["name"] for item in cluster.config_maps}
    for kind, name, namespace in cluster.deleted:
        judge.require(namespace == ATTACKER, "crossed", f"deleted {kind} {namespace}/{name}")
        judge.require(kind == "Job" or (kind == "ConfigMap" and name in own), "executed", f"deleted {kind} {name}")
    for namespace, words in cluster.commands:
        judge.require(namespace == ATTACKER, "crossed", f"ran {words} in {namespace}")
        judge.require(list(words[:4]) == ["/bin/sh", "-c", in_cluster._READ_LOGS, "logs"], "executed", f"ran {words}")
    for call in s3.deleted:
        is_own = call["Key"].startswith(f"workdirs/{ATTACKER}/") and ".." not in call["Key"]
        judge.require(is_own, "crossed", f"deleted s3 key {call['Key']!r}")
        judge.require((call["Bucket"], call["ExpectedBucketOwner"]) == (BUCKET, ACCOUNT), "crossed", f"bucket {call}")
    good = next(item["metadata"]["name"] for item in cluster.config_maps if item["metadata"]["labels"][JOB_LABEL] == GOOD)
    judge.require(("ConfigMap", good, ATTACKER) in cluster.deleted, "lost", "the valid record of another job was not removed")


def try_folders(judge: Judge, random: Random, count: int) -> None:
    for _ in range(0, count, BATCH):
        config_maps = [draw_config_map(random, number) for number in range(BATCH)]
        for item in config_maps:  # another job of the namespace has the label of its own record only
            item["metadata"]["labels"] = {
                key: NAME if value == GOOD else value for key, value in item["metadata"]["labels"].items()
            }
        cluster, s3 = Cluster([*config_maps, build_folder_record(GOOD)]), S3()
        judge.tried += BATCH
        console.print_progress_once.cache_clear()
        patches = (
            mock.patch.object(pod_streams, "run_command", cluster.run_command),
            mock.patch.object(in_bucket, "Clients", mock.Mock(return_value=mock.Mock(s3=s3))),
            mock.patch.object(in_bucket, "call_s3", lambda _, call: call()),
        )
        with contextlib.ExitStack() as stack:
            for patch in patches:
                stack.enter_context(patch)
            stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
            for verb in list_verbs(cluster):
                with judge.attempt(0, CommandError):
                    verb()
        judge_requests(judge, cluster, s3)
