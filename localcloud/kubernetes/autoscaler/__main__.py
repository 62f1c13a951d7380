"""`cluster-autoscaler --cloud-provider=aws --node-group-auto-discovery=asg:tag=... [...]`; the program runs until
SIGTERM."""

import logging
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from localcloud.kubernetes.autoscaler import flags, kube
from localcloud.kubernetes.autoscaler.cloud import AwsCloud, AwsRefused
from localcloud.kubernetes.autoscaler.loop import Loop, describe_shortened_delay

log = logging.getLogger("cluster-autoscaler")

MAXIMUM_INACTIVITY_SECONDS = 600.0
"""Default of --max-inactivity in the real cluster-autoscaler."""


def main() -> int:
    options = flags.parse(sys.argv[1:])
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    log.info("cluster-autoscaler emulator of the local cloud: scales tagged Auto Scaling groups for unschedulable pods")
    if options.ignored:
        log.info("ignored flags: %s", ", ".join(f"--{name}" for name in options.ignored))
    if shortened := describe_shortened_delay(options.gpu_pod_delay):
        log.info("%s", shortened)
    ending = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ending.set())
    connection = kube.connect_by_kubeconfig(options.kubeconfig) if options.kubeconfig else kube.connect_in_cluster()
    loop = Loop(kube.ApiServer(connection), AwsCloud(options.discovery, options.region), options)
    alive = Alive()
    alive.serve(options.port)
    while not ending.is_set():
        try:
            loop.run_once()
            alive.record_activity()
        except Exception as error:  # the error may be transient, such as a restart of the API server or expired credentials
            log.error("this pass failed: %s", error, exc_info=not isinstance(error, (OSError, AwsRefused, kube.ApiError)))
        ending.wait(options.scan_interval)
    return 0


class Alive:
    """Serves `/health-check`: returns 200 while the last successful pass is recent."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def record_activity(self) -> None:
        self._last = time.monotonic()

    def serve(self, port: int) -> None:
        alive = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                silent = time.monotonic() - alive._last
                self.send_response(200 if silent < MAXIMUM_INACTIVITY_SECONDS else 500)
                self.end_headers()
                self.wfile.write(f"last success {silent:.0f} s ago\n".encode())

            def log_message(self, format: str, *args: Any) -> None:
                log.debug(format, *args)

        server = ThreadingHTTPServer(("", port), Handler)
        threading.Thread(target=server.serve_forever, name="health", daemon=True).start()


if __name__ == "__main__":
    sys.exit(main())
