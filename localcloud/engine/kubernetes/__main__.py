"""`python -m localcloud.engine.kubernetes --port 0 --ready-file F`: serves until SIGTERM."""

import argparse
import json
import logging
import os
import signal
import sys
import threading
from pathlib import Path

from localcloud import whole_file
from localcloud.engine.kubernetes.server import start

GRACE_SECONDS = 5.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m localcloud.engine.kubernetes", description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--ready-file", type=Path, help="JSON with pid and port, written when requests are served")
    parser.add_argument("--log-level", default="DEBUG")
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("localcloud").setLevel(options.log_level)

    asked_to_stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: asked_to_stop.set())
    server, port = start(options.port)
    if options.ready_file:
        whole_file.write(options.ready_file, json.dumps({"pid": os.getpid(), "port": port}) + "\n")
    asked_to_stop.wait()
    server.stop(GRACE_SECONDS).wait()
    if options.ready_file:
        options.ready_file.unlink(missing_ok=True)
    sys.stderr.flush()
    os._exit(0)  # threads that still wait for a cluster must not hold the process


if __name__ == "__main__":
    sys.exit(main())
