"""Job keys exchanged through a bucket: which keys are trusted, and how ssh and sshd are configured.

The tests run the code as a pod does.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from infra.jobs.in_pods import UNUSABLE_IMAGE, keys_in_bucket
from infra.jobs.in_pods.keys_in_bucket import Peers

pytestmark = pytest.mark.usefixtures("restore_process_state")

BUCKET, NAMESPACE, JOB = "keys", "mpi-jobs", "mnist"
WORKERS, LAUNCHER = [f"{JOB}-worker-{number}" for number in range(2)], f"{JOB}-launcher-x7k2p"


def make_public_key(number: int) -> str:
    return f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{number:043d}"


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with mock_aws():
        client = boto3.client("s3")
        client.create_bucket(Bucket=BUCKET)
        yield client


@pytest.fixture
def peers(s3: Any) -> Peers:
    return Peers(s3, BUCKET, NAMESPACE, JOB, len(WORKERS))


@pytest.fixture
def pod_folder(tmp_path: Path) -> Path:
    """Return the folder of a pod that has created its key pair."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(tmp_path / "id_rsa")], check=True)
    return tmp_path


def put_key(s3: Any, pod: str, body: str, namespace: str = NAMESPACE) -> None:
    s3.put_object(Bucket=BUCKET, Key=f"jobs/{namespace}/{pod}/id.pub", Body=body.encode())


def follow_bucket(peers: Peers, folder: Path, monkeypatch: pytest.MonkeyPatch, looks: int = 1) -> None:
    """Run `follow` until it has polled the bucket the given number of times."""
    left = iter(range(looks - 1))

    def count_pause(_: float) -> None:
        if next(left, None) is None:
            raise StopIteration

    monkeypatch.setattr(keys_in_bucket.time, "sleep", count_pause)
    with pytest.raises(StopIteration):
        keys_in_bucket.keep_keys_updated(peers, folder, WORKERS[0])


def test_pod_publishes_only_its_public_key_under_its_own_name(s3: Any, peers: Peers, tmp_path: Path) -> None:
    keys_in_bucket.generate_and_upload_key(peers, tmp_path, WORKERS[0])
    (listed,) = s3.list_objects_v2(Bucket=BUCKET)["Contents"]
    assert listed["Key"] == f"jobs/{NAMESPACE}/{WORKERS[0]}/id.pub"
    shown = s3.get_object(Bucket=BUCKET, Key=listed["Key"])["Body"].read().decode()
    assert shown == (tmp_path / "id_rsa.pub").read_text().strip()
    assert (tmp_path / "id_rsa").stat().st_mode & 0o077 == 0
    assert peers.keys() == {WORKERS[0]: shown}


def test_container_restarted_in_its_pod_keeps_the_key_pair(peers: Peers, tmp_path: Path) -> None:
    keys_in_bucket.generate_and_upload_key(peers, tmp_path, WORKERS[0])
    first = peers.keys()
    keys_in_bucket.generate_and_upload_key(peers, tmp_path, WORKERS[0])
    assert peers.keys() == first


@pytest.mark.parametrize(
    ("pod", "body", "namespace"),
    [
        ("other-worker-0", make_public_key(7), NAMESPACE),
        (WORKERS[0], make_public_key(7), "other"),
        (f"{JOB}-worker-x", make_public_key(7), NAMESPACE),
        (f"{JOB}-setup-x7k2p", make_public_key(7), NAMESPACE),
        (f"{JOB}-launcher-x7k2p-worker-0", make_public_key(7), NAMESPACE),
        (f"{JOB}-launcher-X7", make_public_key(7), NAMESPACE),
        (WORKERS[0], f'command="evil" {make_public_key(7)}', NAMESPACE),
        (WORKERS[0], f"{make_public_key(7)}\n{make_public_key(8)}", NAMESPACE),
        (WORKERS[0], "ssh-rsa AAAA", NAMESPACE),
        (WORKERS[0], "", NAMESPACE),
    ],
)
def test_invalid_keys_and_keys_of_other_pods_are_ignored(s3: Any, peers: Peers, pod: str, body: str, namespace: str) -> None:
    put_key(s3, pod, body, namespace)
    put_key(s3, WORKERS[1], make_public_key(1))
    assert peers.keys() == {WORKERS[1]: make_public_key(1)}


def test_no_ssh_configuration_is_written_before_all_worker_keys_are_known(
    s3: Any, peers: Peers, pod_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_key(s3, WORKERS[0], make_public_key(0))
    put_key(s3, LAUNCHER, make_public_key(9))
    follow_bucket(peers, pod_folder, monkeypatch)
    assert not (pod_folder / "known_hosts").exists()


def test_sshd_admits_all_pods_of_the_job_and_known_hosts_has_each_workers_key(
    s3: Any, peers: Peers, pod_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, pod in enumerate([*WORKERS, LAUNCHER]):
        put_key(s3, pod, make_public_key(number))
    follow_bucket(peers, pod_folder, monkeypatch)
    assert (pod_folder / "authorized_keys").read_text().split("\n") == [
        f"{make_public_key(2)} {LAUNCHER}",
        f"{make_public_key(0)} {WORKERS[0]}",
        f"{make_public_key(1)} {WORKERS[1]}",
        "",
    ]
    for number, pod in enumerate(WORKERS):
        for name in (pod, f"{pod}.{JOB}.{NAMESPACE}.svc"):
            assert make_public_key(number) in find_known_hosts(pod_folder, f"[{name}]:2222")
    assert find_known_hosts(pod_folder, f"[{LAUNCHER}]:2222") == ""


def find_known_hosts(folder: Path, host: str) -> str:
    """Return the entries that ssh-keygen finds for a host."""
    command = ["ssh-keygen", "-F", host, "-f", str(folder / "known_hosts")]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def test_keys_of_a_restarted_worker_and_a_late_launcher_are_added(
    s3: Any, peers: Peers, pod_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, pod in enumerate(WORKERS):
        put_key(s3, pod, make_public_key(number))
    follow_bucket(peers, pod_folder, monkeypatch)
    put_key(s3, WORKERS[1], make_public_key(5))
    put_key(s3, LAUNCHER, make_public_key(6))
    follow_bucket(peers, pod_folder, monkeypatch)
    assert make_public_key(5) in find_known_hosts(pod_folder, f"[{WORKERS[1]}]:2222")
    assert make_public_key(6) in (pod_folder / "authorized_keys").read_text()
    assert make_public_key(1) not in (pod_folder / "authorized_keys").read_text()


def test_key_is_published_again_before_the_bucket_expires_it(
    s3: Any, peers: Peers, pod_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys_in_bucket, "AGAIN_SECONDS", 0)
    follow_bucket(peers, pod_folder, monkeypatch)
    assert peers.keys() == {WORKERS[0]: keys_in_bucket.read_public_key(pod_folder)}


def test_known_keys_are_kept_while_the_bucket_does_not_respond(
    s3: Any, peers: Peers, pod_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, pod in enumerate(WORKERS):
        put_key(s3, pod, make_public_key(number))
    follow_bucket(peers, pod_folder, monkeypatch)
    known_hosts = (pod_folder / "known_hosts").read_text()
    for listed in s3.list_objects_v2(Bucket=BUCKET)["Contents"]:
        s3.delete_object(Bucket=BUCKET, Key=listed["Key"])
    s3.delete_bucket(Bucket=BUCKET)
    follow_bucket(peers, pod_folder, monkeypatch, looks=2)
    assert (pod_folder / "known_hosts").read_text() == known_hosts
    assert "cannot read the bucket" in capsys.readouterr().err


def test_error_names_image_without_an_aws_sdk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    assert publish_refused_key(monkeypatch, tmp_path) == (
        UNUSABLE_IMAGE,
        "python3 of the image has no boto3, which keyExchange s3 needs to reach its bucket; "
        "docs/guides/images.md lists what an image must have",
    )


def test_error_names_bucket_that_denies_access(s3: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(keys_in_bucket, "PATIENCE_SECONDS", -1)
    code, sentence = publish_refused_key(monkeypatch, tmp_path, bucket="another")
    assert code == 1
    assert sentence.startswith("cannot write the pod's public key to s3://another: An error occurred (NoSuchBucket)")
    assert sentence.endswith(". Check that the add-on eks-pod-identity-agent is running")


def publish_refused_key(monkeypatch: pytest.MonkeyPatch, folder: Path, bucket: str = BUCKET) -> tuple[object, str]:
    """Run the container that publishes the key, and return its exit code and termination message."""
    monkeypatch.setattr(keys_in_bucket, "SAID", folder / "said")
    monkeypatch.setenv("GPUMPI_KEY_BUCKET", bucket)
    monkeypatch.setenv("GPUMPI_POD", WORKERS[0])
    with pytest.raises(SystemExit) as ended:
        keys_in_bucket.main("publish", NAMESPACE, JOB, 2, folder)
    return ended.value.code, (folder / "said").read_text()


def test_key_exchange_ends_at_once_when_its_pod_ends(
    s3: Any, peers: Peers, pod_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUMPI_KEY_BUCKET", BUCKET)
    monkeypatch.setenv("GPUMPI_POD", WORKERS[0])
    monkeypatch.setattr(keys_in_bucket.time, "sleep", lambda _: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(SystemExit) as ended:
        keys_in_bucket.main("follow", NAMESPACE, JOB, 2, pod_folder)
    assert ended.value.code == 0
