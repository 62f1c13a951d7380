"""`python -m localcloud.engine.kubernetes --port 0 --ready-file F`: run the Kubernetes provider emulator until
SIGTERM."""

import sys

from localcloud.engine import process
from localcloud.engine.kubernetes.server import start


def main() -> int:
    return process.serve_until_terminated(process.parse_options("localcloud.engine.kubernetes", __doc__), start)


if __name__ == "__main__":
    sys.exit(main())
