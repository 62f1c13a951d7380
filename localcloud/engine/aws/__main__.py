"""`python -m localcloud.engine.aws --port 0 --ready-file F`: run the AWS provider emulator until SIGTERM."""

import os
import sys

from localcloud.engine import process
from localcloud.engine.aws.server import get_endpoint, start

PROFILES = ("AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_SESSION_TOKEN")
"""Variables inherited from the user's environment. The emulator ignores them: the local AWS has a single user."""


def main() -> int:
    options = process.parse_options("localcloud.engine.aws", __doc__)
    for name in PROFILES:
        os.environ.pop(name, None)
    return process.serve_until_terminated(options, lambda port: start(port, get_endpoint()))


if __name__ == "__main__":
    sys.exit(main())
