"""`--workdir` without a writable shared volume: each pod unpacks the folder from an archive in the stack's bucket."""

import io
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.client import BaseClient
from moto import mock_aws
from typer.testing import CliRunner

from cli.clusters.kubernetes_access import Access
from cli.errors import CommandError
from cli.jobs.workdir import in_cluster, places
from cli.main import app
from infra.jobs.cluster import ClusterDescription
from infra.jobs.in_pods import UNUSABLE_IMAGE, workdir_from_bucket
from infra.jobs.placed import PlacedJob
from infra.naming import KEY_BUCKET_CONFIG
from tests.pure import job_world
from tests.pure.job_world import make_cluster, render_objects

BUCKET, REGION, ACCOUNT = "stack-bucket", "us-west-2", "123456789012"


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with mock_aws():
        client = boto3.client("s3")
        client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
        yield client


class Cluster:
    """Fake cluster that stores the ConfigMaps of a namespace."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}

    def description(self) -> ClusterDescription:
        return place_job().cluster

    def create(self, manifest: dict[str, Any]) -> dict[str, Any]:
        self.objects[manifest["metadata"]["name"]] = manifest
        return {**manifest, "metadata": {**manifest["metadata"], "uid": manifest["metadata"]["name"]}}

    def delete(self, kind: str, name: str, namespace: str) -> None:
        del self.objects[name]

    def list(self, kind: str, namespace: str, labels: dict[str, str]) -> list[dict[str, Any]]:
        return list(self.objects.values())


def place_job(*, bucket: str = BUCKET, **more: Any) -> PlacedJob:
    return job_world.placed(make_cluster(region=REGION, account=ACCOUNT, bucket=bucket), volumes=[], **more)


def write_code_folder(tmp_path: Path, answer: int = 41) -> Path:
    (tmp_path / "lib").mkdir(exist_ok=True)
    (tmp_path / "lib" / "answer.py").write_text(str(answer))
    (tmp_path / "train.sh").write_text("#!/bin/sh\n")
    (tmp_path / "train.sh").chmod(0o755)
    (tmp_path / "latest").unlink(missing_ok=True)
    (tmp_path / "latest").symlink_to("train.sh")
    return tmp_path


def send_folder(running: Cluster, folder: Path, bucket: str = BUCKET) -> str:
    """Send the folder for a job. Return the S3 object's key."""
    place = places.choose_storage(place_job(bucket=bucket), folder, 200)
    before = set(running.objects)
    place.create(running)  # type: ignore[arg-type]
    (record,) = set(running.objects) - before
    key: str = running.objects[record]["data"]["object"]
    return key


def unpack_folder(key: str, folder: Path, monkeypatch: pytest.MonkeyPatch, said: Path) -> None:
    monkeypatch.setenv("GPUMPI_BUCKET", BUCKET)
    monkeypatch.setattr(workdir_from_bucket, "SAID", said)
    workdir_from_bucket.main(key, folder)


def test_files_arrive_with_modes_and_symlinks(s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "pod").mkdir()
    key = send_folder(Cluster(), write_code_folder(tmp_path / "code"))
    unpack_folder(key, tmp_path / "pod", monkeypatch, tmp_path / "said")
    assert (tmp_path / "pod" / "lib" / "answer.py").read_text() == "41"
    assert (tmp_path / "pod" / "train.sh").stat().st_mode & 0o111
    assert (tmp_path / "pod" / "latest").readlink() == Path("train.sh")


def test_unchanged_folder_is_copied_within_the_bucket_instead_of_sent_again(
    s3: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    running = Cluster()
    first, second = send_folder(running, write_code_folder(tmp_path)), send_folder(running, tmp_path)
    assert first != second
    assert "sent 2 files" in (messages := capsys.readouterr().err) and "copied 2 unchanged files" in messages
    third = send_folder(running, write_code_folder(tmp_path, 42))
    assert "copied" not in capsys.readouterr().err
    assert third.split("/")[:-1] != first.split("/")[:-1]


def test_removing_a_job_deletes_its_folder_but_no_other(s3: Any, tmp_path: Path) -> None:
    running = Cluster()
    first = send_folder(running, write_code_folder(tmp_path))
    alone = Cluster()
    second = send_folder(alone, tmp_path)
    assert in_cluster.remove_workdir(running, "mpi-jobs", "mnist")  # type: ignore[arg-type]
    assert [stored["Key"] for stored in s3.list_objects_v2(Bucket=BUCKET)["Contents"]] == [second]
    assert first != second
    assert running.objects == {}


def test_every_s3_call_names_the_account_that_owns_the_bucket(s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, dict[str, Any]]] = []
    call = BaseClient._make_api_call

    def record_call(client: Any, operation: str, arguments: dict[str, Any]) -> Any:
        calls.append((operation, arguments))
        return call(client, operation, arguments)

    monkeypatch.setattr(BaseClient, "_make_api_call", record_call)
    running = Cluster()
    send_folder(running, write_code_folder(tmp_path))
    send_folder(running, tmp_path)
    in_cluster.remove_workdir(running, "mpi-jobs", "mnist")  # type: ignore[arg-type]
    assert {name for name, _ in calls} == {"ListObjectsV2", "PutObject", "CopyObject", "DeleteObject"}
    assert [recorded for recorded in calls if recorded[1].get("ExpectedBucketOwner") != ACCOUNT] == []


def test_forged_bucket_name_in_a_config_map_is_ignored(s3: Any, tmp_path: Path) -> None:
    running = Cluster()
    running.objects[KEY_BUCKET_CONFIG] = {"metadata": {"labels": {}}, "data": {"bucket": "of-another-account"}}
    send_folder(running, write_code_folder(tmp_path))
    assert [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]] == [BUCKET]
    assert len(s3.list_objects_v2(Bucket=BUCKET)["Contents"]) == 1


def test_failed_upload_leaves_no_objects(s3: Any, tmp_path: Path) -> None:
    running = Cluster()
    with pytest.raises(CommandError, match="NoSuchBucket"):
        send_folder(running, write_code_folder(tmp_path), bucket="another")
    assert running.objects == {}


def test_a_stack_without_a_bucket_for_folders_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="mounts no writable volume of namespace mpi-jobs, and its stack has no bucket"):
        places.choose_storage(place_job(bucket=""), write_code_folder(tmp_path), 200)


class WholeCluster(Cluster):
    """A fake cluster that also has a cluster description and accepts the objects of a job."""

    server, namespace = "https://cluster.test", "mpi-jobs"

    def find(self, kind: str, name: str, namespace: str) -> None:
        return None

    def list(self, kind: str, namespace: str, labels: dict[str, str] | None = None, **more: Any) -> list[dict[str, Any]]:
        return []


def test_imported_job_starts_in_its_workdir_relative_to_the_imported_file(
    s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = WholeCluster()
    monkeypatch.setattr(Access, "connect", lambda _: running)
    write_code_folder(tmp_path)
    (tmp_path / "jobs").mkdir()
    file = tmp_path / "jobs" / "sums.sbatch"
    file.write_text("#!/bin/bash\n#SBATCH --nodes=2\nsrun ./train.sh\n")
    options = ["--set", "image=openmpi:5", "--set", "volumes=[]", "--set", "workdir=../lib"]
    done = CliRunner().invoke(app, ["import", str(file), *options, "--submit"])
    assert done.exit_code == 0, done.output
    (sent,) = s3.list_objects_v2(Bucket=BUCKET)["Contents"]
    with tarfile.open(fileobj=io.BytesIO(s3.get_object(Bucket=BUCKET, Key=sent["Key"])["Body"].read())) as archive:
        assert archive.getnames() == ["answer.py"]
    ranks = [
        container for manifest in running.objects.values() for pod in list_pod_specs(manifest) for container in pod["containers"]
    ]
    assert {container.get("workingDir") for container in ranks if container["name"] == "worker"} == {"/gpumpi/workdir"}


@pytest.mark.parametrize("launcher", ["mpijob", "standalone", "torchrun"])
def test_ranks_start_in_the_folder_after_unpacking(launcher: str, s3: Any, tmp_path: Path) -> None:
    place = places.choose_storage(place_job(launcher=launcher), write_code_folder(tmp_path), 200)
    pods = [
        pod for piece in render_objects(storage=place.storage, launcher=launcher, volumes=[]) for pod in list_pod_specs(piece)
    ]
    ranks = [(pod, container) for pod in pods for container in pod["containers"] if container["name"] in ("launcher", "worker")]
    assert ranks
    for pod, container in ranks:
        assert container["workingDir"] == "/gpumpi/workdir"
        assert {"name": "workdir", "mountPath": "/gpumpi/workdir"} in container["volumeMounts"]
        assert pod["initContainers"][0]["name"] == "workdir"
        assert {"name": "workdir", "emptyDir": {}} in pod["volumes"]


def list_pod_specs(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    spec = manifest.get("spec", {})
    templates = [replica_spec["template"] for replica_spec in spec.get("mpiReplicaSpecs", {}).values()] + [
        spec.get("template", {})
    ]
    return [template["spec"] for template in templates if "spec" in template]


def test_error_names_expired_folder(s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit) as ended:
        unpack_folder("workdirs/mpi-jobs/gone.tar.gz", tmp_path, monkeypatch, tmp_path / "said")
    assert ended.value.code == 1
    assert (tmp_path / "said").read_text().endswith("workdirs/mpi-jobs/gone.tar.gz; submit the job again")


def test_missing_boto3_in_the_image_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(SystemExit) as ended:
        unpack_folder("any", tmp_path, monkeypatch, tmp_path / "said")
    assert ended.value.code == UNUSABLE_IMAGE
    assert "python3 of the image has no boto3, which workdir needs" in (tmp_path / "said").read_text()
