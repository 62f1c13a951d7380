"""Unpack the folder that `submit` sent to a job, from the stack's S3 bucket.

Arguments: the object's key, and the folder. Environment: GPUMPI_BUCKET.
"""

import os
import sys
import tarfile
import tempfile
import time
from pathlib import Path

UNUSABLE_IMAGE = 78
SAID = Path("/dev/termination-log")
PATIENCE_SECONDS = 120
"""Pod Identity takes a while to work on a new node or with a new association."""
EXPIRED = ("404", "NoSuchKey")


def exit_with_error(code: int, sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)
    SAID.write_text(sentence)
    sys.exit(code)


def unpack_archive(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as content:
        if hasattr(tarfile, "data_filter"):
            content.extractall(folder, filter="data")
        else:  # tarfile has no filters before Python 3.8.17, 3.9.17, 3.10.12 and 3.11.4; `submit` created the archive
            content.extractall(folder)


def main(key: str, folder: Path) -> None:
    try:
        import boto3
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError:
        exit_with_error(
            UNUSABLE_IMAGE,
            "python3 of the image has no boto3, which workdir needs to reach the stack's bucket; mount a writable shared volume, "
            "or see docs/guides/images.md for what an image needs",
        )
    bucket, end = os.environ["GPUMPI_BUCKET"], time.monotonic() + PATIENCE_SECONDS
    with tempfile.TemporaryDirectory() as place:
        archive = Path(place) / "workdir.tar.gz"
        while True:
            try:
                boto3.client("s3").download_file(bucket, key, str(archive))
                break
            except (BotoCoreError, ClientError) as error:
                if isinstance(error, ClientError) and error.response["Error"]["Code"] in EXPIRED:
                    exit_with_error(1, f"the sent folder is no longer in s3://{bucket}/{key}; submit the job again")
                if time.monotonic() > end:
                    why = f"cannot read the sent folder from s3://{bucket}/{key}: {error}"
                    exit_with_error(1, f"{why}. Check that the add-on eks-pod-identity-agent is running")
                print(f"cannot read the bucket yet: {error}", file=sys.stderr, flush=True)
            time.sleep(1)
        unpack_archive(archive, folder)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
