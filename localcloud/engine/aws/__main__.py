"""`python -m localcloud.engine.aws --port 0 --ready-file F`: serves until SIGTERM."""

import os
import sys

from localcloud.engine import process
from localcloud.engine.aws.server import endpoint, start

PROFILES = ("AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_SESSION_TOKEN")
"""Set by the user who started this process. The local AWS has exactly one user of its own."""


def main() -> int:
    given = process.options("localcloud.engine.aws", __doc__)
    for name in PROFILES:
        os.environ.pop(name, None)
    return process.serve(given, lambda port: start(port, endpoint()))


if __name__ == "__main__":
    sys.exit(main())
