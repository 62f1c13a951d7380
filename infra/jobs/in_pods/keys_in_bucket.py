"""Exchange the SSH keys of a job's pods through an S3 bucket. Private keys never leave their pod.

Each pod generates its own key pair, uploads the public key under its own name, and downloads the public keys of the
job's other pods. The object's name shows to which pod a key belongs: IAM lets a pod write only under its own name, and
no two pods in a namespace have the same name at the same time.

Arguments: a verb, the namespace, the job, the number of workers, and the directory of the key files.
- `publish` generates the key pair and uploads the public key.
- `follow` keeps authorized_keys and known_hosts up to date until the container ends.

Environment: GPUMPI_KEY_BUCKET (the bucket) and GPUMPI_POD (the name of this pod).
"""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PORT = 2222
UNUSABLE_IMAGE = 78
SAID = Path("/dev/termination-log")
WHAT_AN_IMAGE_HAS = "docs/guides/images.md lists what an image must have"
GONE = ("AccessDenied", "NoSuchKey")
"""Error codes with which S3 answers GetObject if an object has expired since it was listed."""
KEY_TYPE = "ssh-ed25519"
KEY_FORM = re.compile(rf"{KEY_TYPE} [A-Za-z0-9+/]{{60,80}}={{0,2}}")
"""A public key on a single line, without options before it or a comment after it."""
LONGEST = 1000
OBJECT = "id.pub"
PATIENCE_SECONDS = 120
"""Time limit of `publish`: on a new node, or with a new association, it takes a while until Pod Identity works."""
SOON_SECONDS, LATER_SECONDS = 1, 10
"""Pause between two reads of the bucket: shortly after a change, and otherwise."""
BUSY_SECONDS = 60
"""How long to use the short pause after a change. More changes are likely, because the pods of a job start together."""
AGAIN_SECONDS = 12 * 3600
"""Interval between uploads of the public key, because objects in the bucket expire after a day."""


class Peers:
    """A job's pods and the public keys that they have uploaded to the bucket."""

    def __init__(self, s3: Any, bucket: str, namespace: str, job: str, workers: int) -> None:
        self._s3, self._bucket = s3, bucket
        self._namespace, self._job = namespace, job
        self._workers = [f"{job}-worker-{number}" for number in range(workers)]
        self._read: dict[str, tuple[str, str]] = {}
        """Maps the name of each object that was read to its ETag and content."""

    def publish_key(self, pod: str, key: str) -> None:
        place = f"jobs/{self._namespace}/{pod}/{OBJECT}"
        self._s3.put_object(Bucket=self._bucket, Key=place, Body=key.encode(), ContentType="text/plain")

    def workers(self, keys: "dict[str, str]") -> "dict[str, str]":
        """Return the name and public key of each worker, in the order of the workers. Empty until the keys of all
        workers are known."""
        return {pod: keys[pod] for pod in self._workers} if keys.keys() >= set(self._workers) else {}

    def keys(self) -> "dict[str, str]":
        """Return the public keys of the job's pods by pod name. Omits malformed keys. Raises boto3's errors."""
        prefix = f"jobs/{self._namespace}/"
        pod = rf"{re.escape(self._job)}-(?:worker-\d+|launcher-[a-z0-9]{{5}})"
        ours = re.compile(rf"{re.escape(prefix)}({pod})/{OBJECT}")
        pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=f"{prefix}{self._job}-")
        keys = {}
        for listed in (item for page in pages for item in page.get("Contents", ())):
            place = ours.fullmatch(listed["Key"]) if listed["Size"] < LONGEST else None
            key = self._read_key(listed) if place else None
            if place and key:
                keys[place[1]] = key
        return keys

    def _read_key(self, listed: "dict[str, Any]") -> "str | None":
        name, etag = listed["Key"], listed["ETag"]
        if self._read.get(name, ("", ""))[0] != etag:
            try:
                text = self._s3.get_object(Bucket=self._bucket, Key=name)["Body"].read()
            except self._s3.exceptions.ClientError as error:
                if error.response["Error"]["Code"] in GONE:
                    return None
                raise
            self._read[name] = (etag, text.decode(errors="replace").strip())
        key = self._read[name][1]
        return key if KEY_FORM.fullmatch(key) else None


def format_authorized_keys(keys: "dict[str, str]") -> str:
    return "".join(f"{key} {pod}\n" for pod, key in sorted(keys.items()))


def format_known_hosts(workers: "dict[str, str]") -> str:
    """Return the known_hosts file, which is the same in all pods of a job.

    The launcher compares this file with its own to find out whether a worker knows all other workers.
    """
    return "".join(f"[{name}]:{PORT},[{name}.*]:{PORT} {key}\n" for name, key in workers.items())


def write_if_changed(file: Path, text: str) -> bool:
    """Write a file atomically if its content differs. Return whether it did."""
    if file.exists() and file.read_text() == text:
        return False
    beside = file.with_name(f".{file.name}.new")
    beside.write_text(text)
    beside.rename(file)
    return True


def generate_and_upload_key(peers: Peers, folder: Path, pod: str) -> None:
    """Generate the key pair and upload the public key.

    The pair already exists if only the container was restarted, and is then kept. Retries for PATIENCE_SECONDS, then
    raises the last error from boto3.
    """
    private = folder / "id_rsa"
    if not private.exists():
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(private)], check=True)
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            peers.publish_key(pod, read_public_key(folder))
            return
        except _list_aws_errors() as error:
            if time.monotonic() > end:
                raise
            print(f"cannot write to the bucket yet: {error}", file=sys.stderr, flush=True)
        time.sleep(SOON_SECONDS)


def keep_keys_updated(peers: Peers, folder: Path, pod: str) -> None:
    """Keep authorized_keys and known_hosts up to date. Never returns.

    Both files are written once the keys of all workers are known, known_hosts last. An sshd that starts after that
    accepts connections from every worker.
    """
    changed = published = time.monotonic()
    while True:
        try:
            keys = peers.keys()
            if workers := peers.workers(keys):
                both = (
                    write_if_changed(folder / "authorized_keys", format_authorized_keys(keys)),
                    write_if_changed(folder / "known_hosts", format_known_hosts(workers)),
                )
                changed = time.monotonic() if any(both) else changed
            if time.monotonic() - published > AGAIN_SECONDS:
                peers.publish_key(pod, read_public_key(folder))
                published = time.monotonic()
        except _list_aws_errors() as error:  # keep the keys that were read before
            print(f"cannot read the bucket: {error}", file=sys.stderr, flush=True)
        time.sleep(SOON_SECONDS if time.monotonic() - changed < BUSY_SECONDS else LATER_SECONDS)


def read_public_key(folder: Path) -> str:
    return (folder / "id_rsa.pub").read_text().strip()


def _list_aws_errors() -> "tuple[type[Exception], ...]":
    from botocore.exceptions import BotoCoreError, ClientError

    return BotoCoreError, ClientError


def exit_with_error(code: int, sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)
    SAID.write_text(sentence)
    sys.exit(code)


def main(verb: str, namespace: str, job: str, workers: int, folder: Path) -> None:
    os.umask(0o077)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # PID 1 ignores signals without a handler
    try:
        import boto3
    except ImportError:
        exit_with_error(
            UNUSABLE_IMAGE,
            f"python3 of the image has no boto3, which keyExchange s3 needs to reach its bucket; {WHAT_AN_IMAGE_HAS}",
        )
    bucket, pod = os.environ["GPUMPI_KEY_BUCKET"], os.environ["GPUMPI_POD"]
    peers = Peers(boto3.client("s3"), bucket, namespace, job, workers)
    if verb == "follow":
        keep_keys_updated(peers, folder, pod)
    try:
        generate_and_upload_key(peers, folder, pod)
    except FileNotFoundError:
        exit_with_error(UNUSABLE_IMAGE, f"the image has no ssh-keygen, which generates the keys; {WHAT_AN_IMAGE_HAS}")
    except _list_aws_errors() as error:
        why = f"cannot write the pod's public key to s3://{bucket}: {error}"
        exit_with_error(1, f"{why}. Check that the add-on eks-pod-identity-agent is running")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), Path(sys.argv[5]))
