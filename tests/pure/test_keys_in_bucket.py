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

pytestmark = pytest.mark.usefixtures("restored_process")

BUCKET, NAMESPACE, JOB = "keys", "mpi-jobs", "mnist"
WORKERS, LAUNCHER = [f"{JOB}-worker-{number}" for number in range(2)], f"{JOB}-launcher-x7k2p"


def key(number: int) -> str:
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
def folder(tmp_path: Path) -> Path:
    """Return the folder of a pod that has created its key pair."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(tmp_path / "id_rsa")], check=True)
    return tmp_path


def put(s3: Any, pod: str, body: str, namespace: str = NAMESPACE) -> None:
    s3.put_object(Bucket=BUCKET, Key=f"jobs/{namespace}/{pod}/id.pub", Body=body.encode())


def followed(peers: Peers, folder: Path, monkeypatch: pytest.MonkeyPatch, looks: int = 1) -> None:
    """Run `follow` until it has polled the bucket the given number of times."""
    left = iter(range(looks - 1))

    def pause(_: float) -> None:
        if next(left, None) is None:
            raise StopIteration

    monkeypatch.setattr(keys_in_bucket.time, "sleep", pause)
    with pytest.raises(StopIteration):
        keys_in_bucket.follow(peers, folder, WORKERS[0])


def test_a_pod_shows_the_public_half_below_its_own_name_and_nothing_else(s3: Any, peers: Peers, tmp_path: Path) -> None:
    keys_in_bucket.publish(peers, tmp_path, WORKERS[0])
    (listed,) = s3.list_objects_v2(Bucket=BUCKET)["Contents"]
    assert listed["Key"] == f"jobs/{NAMESPACE}/{WORKERS[0]}/id.pub"
    shown = s3.get_object(Bucket=BUCKET, Key=listed["Key"])["Body"].read().decode()
    assert shown == (tmp_path / "id_rsa.pub").read_text().strip()
    assert (tmp_path / "id_rsa").stat().st_mode & 0o077 == 0
    assert peers.keys() == {WORKERS[0]: shown}


def test_a_container_that_starts_again_in_its_pod_keeps_the_pair(peers: Peers, tmp_path: Path) -> None:
    keys_in_bucket.publish(peers, tmp_path, WORKERS[0])
    first = peers.keys()
    keys_in_bucket.publish(peers, tmp_path, WORKERS[0])
    assert peers.keys() == first


@pytest.mark.parametrize(
    ("pod", "body", "namespace"),
    [
        ("other-worker-0", key(7), NAMESPACE),
        (WORKERS[0], key(7), "other"),
        (f"{JOB}-worker-x", key(7), NAMESPACE),
        (f"{JOB}-setup-x7k2p", key(7), NAMESPACE),
        (f"{JOB}-launcher-x7k2p-worker-0", key(7), NAMESPACE),
        (f"{JOB}-launcher-X7", key(7), NAMESPACE),
        (WORKERS[0], f'command="evil" {key(7)}', NAMESPACE),
        (WORKERS[0], f"{key(7)}\n{key(8)}", NAMESPACE),
        (WORKERS[0], "ssh-rsa AAAA", NAMESPACE),
        (WORKERS[0], "", NAMESPACE),
    ],
)
def test_what_is_no_key_of_a_pod_of_the_job_is_left_out(s3: Any, peers: Peers, pod: str, body: str, namespace: str) -> None:
    put(s3, pod, body, namespace)
    put(s3, WORKERS[1], key(1))
    assert peers.keys() == {WORKERS[1]: key(1)}


def test_nothing_is_published_before_all_workers_are_known(
    s3: Any, peers: Peers, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(s3, WORKERS[0], key(0))
    put(s3, LAUNCHER, key(9))
    followed(peers, folder, monkeypatch)
    assert not (folder / "known_hosts").exists()


def test_sshd_lets_all_pods_of_the_job_in_and_ssh_knows_each_worker_by_its_own_key(
    s3: Any, peers: Peers, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, pod in enumerate([*WORKERS, LAUNCHER]):
        put(s3, pod, key(number))
    followed(peers, folder, monkeypatch)
    assert (folder / "authorized_keys").read_text().split("\n") == [
        f"{key(2)} {LAUNCHER}",
        f"{key(0)} {WORKERS[0]}",
        f"{key(1)} {WORKERS[1]}",
        "",
    ]
    for number, pod in enumerate(WORKERS):
        for name in (pod, f"{pod}.{JOB}.{NAMESPACE}.svc"):
            assert key(number) in known(folder, f"[{name}]:2222")
    assert known(folder, f"[{LAUNCHER}]:2222") == ""


def known(folder: Path, host: str) -> str:
    """Return the entries that ssh-keygen finds for a host."""
    command = ["ssh-keygen", "-F", host, "-f", str(folder / "known_hosts")]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def test_a_worker_that_was_restarted_and_a_later_launcher_are_noticed(
    s3: Any, peers: Peers, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, pod in enumerate(WORKERS):
        put(s3, pod, key(number))
    followed(peers, folder, monkeypatch)
    put(s3, WORKERS[1], key(5))
    put(s3, LAUNCHER, key(6))
    followed(peers, folder, monkeypatch)
    assert key(5) in known(folder, f"[{WORKERS[1]}]:2222")
    assert key(6) in (folder / "authorized_keys").read_text()
    assert key(1) not in (folder / "authorized_keys").read_text()


def test_the_key_is_shown_again_before_the_bucket_forgets_it(
    s3: Any, peers: Peers, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys_in_bucket, "AGAIN_SECONDS", 0)
    followed(peers, folder, monkeypatch)
    assert peers.keys() == {WORKERS[0]: keys_in_bucket.public_key(folder)}


def test_what_is_known_stays_known_while_the_bucket_does_not_answer(
    s3: Any, peers: Peers, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, pod in enumerate(WORKERS):
        put(s3, pod, key(number))
    followed(peers, folder, monkeypatch)
    told = (folder / "known_hosts").read_text()
    for listed in s3.list_objects_v2(Bucket=BUCKET)["Contents"]:
        s3.delete_object(Bucket=BUCKET, Key=listed["Key"])
    s3.delete_bucket(Bucket=BUCKET)
    followed(peers, folder, monkeypatch, looks=2)
    assert (folder / "known_hosts").read_text() == told
    assert "cannot read the bucket" in capsys.readouterr().err


def test_an_image_without_an_sdk_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    assert refused(monkeypatch, tmp_path) == (
        UNUSABLE_IMAGE,
        "python3 of the image has no boto3, which keyExchange s3 needs to reach its bucket; "
        "docs/guides/images.md lists what an image must have",
    )


def test_a_bucket_that_lets_the_pod_not_in_is_named(s3: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(keys_in_bucket, "PATIENCE_SECONDS", -1)
    code, sentence = refused(monkeypatch, tmp_path, bucket="another")
    assert code == 1
    assert sentence.startswith("cannot write the pod's public key to s3://another: An error occurred (NoSuchBucket)")
    assert sentence.endswith(". Check that the add-on eks-pod-identity-agent is running")


def refused(monkeypatch: pytest.MonkeyPatch, folder: Path, bucket: str = BUCKET) -> tuple[object, str]:
    """Run the container that publishes the key, and return its exit code and termination message."""
    monkeypatch.setattr(keys_in_bucket, "SAID", folder / "said")
    monkeypatch.setenv("GPUMPI_KEY_BUCKET", bucket)
    monkeypatch.setenv("GPUMPI_POD", WORKERS[0])
    with pytest.raises(SystemExit) as ended:
        keys_in_bucket.main("publish", NAMESPACE, JOB, 2, folder)
    return ended.value.code, (folder / "said").read_text()


def test_it_ends_at_once_when_its_pod_ends(s3: Any, peers: Peers, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUMPI_KEY_BUCKET", BUCKET)
    monkeypatch.setenv("GPUMPI_POD", WORKERS[0])
    monkeypatch.setattr(keys_in_bucket.time, "sleep", lambda _: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(SystemExit) as ended:
        keys_in_bucket.main("follow", NAMESPACE, JOB, 2, folder)
    assert ended.value.code == 0
