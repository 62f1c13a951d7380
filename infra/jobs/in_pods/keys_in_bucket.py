"""A job's SSH keys by way of a bucket: each pod makes its own pair, shows the public half below its own name, takes the others'.

No private half leaves its pod. Whose key one is, its place tells: IAM lets a pod write only below its own name, and a name is one
pod's of a namespace at a time. Arguments: `publish` (makes the pair, shows it) or `follow` (keeps right what sshd and ssh
believe, until it is ended); namespace, job, number of workers, folder. Environment: the bucket, the pod's name.
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
WHAT_AN_IMAGE_HAS = "docs/jobs.md lists what an image must have"
GONE = ("AccessDenied", "NoSuchKey")
"""S3's answers to a GetObject of what was listed a moment ago and has expired since."""
KEY_TYPE = "ssh-ed25519"
KEY_FORM = re.compile(rf"{KEY_TYPE} [A-Za-z0-9+/]{{60,80}}={{0,2}}")
"""One line, no options before the key and no comment behind it."""
LONGEST = 1000
OBJECT = "id.pub"
PATIENCE_SECONDS = 120
"""Until Pod Identity answers: the agent of a new node, or a new association."""
SOON_SECONDS, LATER_SECONDS = 1, 10
BUSY_SECONDS = 60
"""After a change more are likely: pods of a job start together."""
AGAIN_SECONDS = 12 * 3600
"""The bucket forgets after a day."""


class Peers:
    """The job's pods, as the bucket has them."""

    def __init__(self, s3: Any, bucket: str, namespace: str, job: str, workers: int) -> None:
        self._s3, self._bucket = s3, bucket
        self._namespace, self._job = namespace, job
        self._workers = [f"{job}-worker-{number}" for number in range(workers)]
        self._read: dict[str, tuple[str, str]] = {}
        """Object key -> its ETag and the public key in it."""

    def publish(self, pod: str, key: str) -> None:
        place = f"jobs/{self._namespace}/{pod}/{OBJECT}"
        self._s3.put_object(Bucket=self._bucket, Key=place, Body=key.encode(), ContentType="text/plain")

    def workers(self, found: "dict[str, str]") -> "dict[str, str]":
        """Name of each worker -> its key, in their order; empty until all are known."""
        return {pod: found[pod] for pod in self._workers} if found.keys() >= set(self._workers) else {}

    def keys(self) -> "dict[str, str]":
        """Name of a pod of the job -> its public key; what is no key is left out. Raises what boto3 raises."""
        prefix = f"jobs/{self._namespace}/"
        pod = rf"{re.escape(self._job)}-(?:worker-\d+|launcher-[a-z0-9]{{5}})"
        ours = re.compile(rf"{re.escape(prefix)}({pod})/{OBJECT}")
        pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=f"{prefix}{self._job}-")
        found = {}
        for listed in (one for page in pages for one in page.get("Contents", ())):
            place = ours.fullmatch(listed["Key"]) if listed["Size"] < LONGEST else None
            key = self._key(listed) if place else None
            if place and key:
                found[place[1]] = key
        return found

    def _key(self, listed: "dict[str, Any]") -> "str | None":
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


def authorized_keys(found: "dict[str, str]") -> str:
    return "".join(f"{key} {pod}\n" for pod, key in sorted(found.items()))


def known_hosts(workers: "dict[str, str]") -> str:
    """Every pod of a job writes the same, which is how the launcher sees that a worker knows the others."""
    return "".join(f"[{name}]:{PORT},[{name}.*]:{PORT} {key}\n" for name, key in workers.items())


def put(file: Path, text: str) -> bool:
    """Whole or not at all; whether it was another text before."""
    if file.exists() and file.read_text() == text:
        return False
    beside = file.with_name(f".{file.name}.new")
    beside.write_text(text)
    beside.rename(file)
    return True


def publish(peers: Peers, folder: Path, pod: str) -> None:
    """Makes the pair unless it is there, as where only the container is a new one. Raises what boto3 raises, after a while."""
    private = folder / "id_rsa"
    if not private.exists():
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(private)], check=True)
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            peers.publish(pod, public_key(folder))
            return
        except _aws_errors() as error:
            if time.monotonic() > end:
                raise
            print(f"cannot write to the bucket yet: {error}", file=sys.stderr, flush=True)
        time.sleep(SOON_SECONDS)


def follow(peers: Peers, folder: Path, pod: str) -> None:
    """For ever. known_hosts appears when all workers are known; what starts after it is let in everywhere."""
    changed = published = time.monotonic()
    while True:
        try:
            found = peers.keys()
            if workers := peers.workers(found):
                both = put(folder / "authorized_keys", authorized_keys(found)), put(folder / "known_hosts", known_hosts(workers))
                changed = time.monotonic() if any(both) else changed
            if time.monotonic() - published > AGAIN_SECONDS:
                peers.publish(pod, public_key(folder))
                published = time.monotonic()
        except _aws_errors() as error:  # what is known stays known
            print(f"cannot read the bucket: {error}", file=sys.stderr, flush=True)
        time.sleep(SOON_SECONDS if time.monotonic() - changed < BUSY_SECONDS else LATER_SECONDS)


def public_key(folder: Path) -> str:
    return (folder / "id_rsa.pub").read_text().strip()


def _aws_errors() -> "tuple[type[Exception], ...]":
    from botocore.exceptions import BotoCoreError, ClientError

    return BotoCoreError, ClientError


def refuse(code: int, sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)
    SAID.write_text(sentence)
    sys.exit(code)


def main(verb: str, namespace: str, job: str, workers: int, folder: Path) -> None:
    os.umask(0o077)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # the first process of a container has no other end
    try:
        import boto3
    except ImportError:
        refuse(
            UNUSABLE_IMAGE, f"python3 of the image has no boto3, by which keyExchange s3 reaches its bucket; {WHAT_AN_IMAGE_HAS}"
        )
    bucket, pod = os.environ["GPUMPI_KEY_BUCKET"], os.environ["GPUMPI_POD"]
    peers = Peers(boto3.client("s3"), bucket, namespace, job, workers)
    if verb == "follow":
        follow(peers, folder, pod)
    try:
        publish(peers, folder, pod)
    except FileNotFoundError:
        refuse(UNUSABLE_IMAGE, f"the image has no ssh-keygen, which makes the keys; {WHAT_AN_IMAGE_HAS}")
    except _aws_errors() as error:
        refuse(1, f"cannot write the pod's public key to s3://{bucket}: {error}; see that the add-on eks-pod-identity-agent runs")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), Path(sys.argv[5]))
