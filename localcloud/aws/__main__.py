"""Run the local AWS as a process until SIGTERM: `python -m localcloud.aws --key-file KEY --ready-file FILE`."""

import argparse
import json
import logging
import os
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from localcloud import garbage, whole_file
from localcloud.aws import extend
from localcloud.keys import Key

if TYPE_CHECKING:
    from localcloud.aws.server import Server
    from localcloud.hosts.realizer import Realizer as HostRealizer
    from localcloud.kubernetes.realizer import Realizer


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m localcloud.aws", description="Run the local AWS on a port of 127.0.0.1.")
    parser.add_argument("--port", type=int, default=0, help="TCP port; 0 picks a free one")
    parser.add_argument(
        "--ready-file", type=Path, help="file for a JSON object with pid, port and endpoint, written when the server is ready"
    )
    parser.add_argument("--key-file", type=Path, required=True, help="JSON file with the access key of the account's user")
    parser.add_argument(
        "--delay-factor", type=float, default=0.0, help="factor for AWS's durations: 0 for no delay, 1 for AWS's speed"
    )
    parser.add_argument("--account", choices=("established", "new"), default="established", help="age of the account")
    parser.add_argument("--file-systems", type=Path, help="store the files of EFS file systems in this folder")
    parser.add_argument(
        "--kubernetes", type=Path, help="run a real Kubernetes cluster for each EKS cluster, with its files in this folder"
    )
    parser.add_argument("--hosts", type=Path, help="run a host for each EC2 instance, with its files in this folder")
    parser.add_argument("--verbose", action="store_true", help="log each request")
    return parser.parse_args()


def main() -> int:
    garbage.pause_collection()
    arguments = _parse_arguments()
    logging.basicConfig(
        level=logging.DEBUG if arguments.verbose else logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    for noisy in ("botocore", "urllib3"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    extend.extend_moto()
    from localcloud.aws import account, durations, quotas
    from localcloud.aws.efs import contents
    from localcloud.aws.server import Server

    account.set_default_access_key(Key.load(arguments.key_file))
    if arguments.file_systems:
        contents.set_root_folder(arguments.file_systems)
    durations.set_factor(arguments.delay_factor)
    quotas.select_account_kind(arguments.account)
    server = Server(arguments.port)
    hosts = _start_host_realizer(arguments.hosts, arguments.file_systems, server) if arguments.hosts else None
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: threading.Thread(target=server.stop).start())
    realizer = _start_realizer(arguments.kubernetes, server) if arguments.kubernetes else None
    garbage.resume_collection()
    endpoint = f"http://127.0.0.1:{server.port}"
    if arguments.ready_file:
        whole_file.write_atomically(
            arguments.ready_file, json.dumps({"pid": os.getpid(), "port": server.port, "endpoint": endpoint}) + "\n"
        )
    logging.getLogger("localcloud.aws").info("serving on %s", endpoint)
    server.serve()
    for alive in (realizer, hosts):
        if alive is not None:
            alive.close()
    if arguments.ready_file:
        arguments.ready_file.unlink(missing_ok=True)
    return 0


def _start_realizer(folder: Path, server: "Server") -> "Realizer":
    from localcloud.kubernetes.realizer import Realizer

    return Realizer(folder, ("127.0.0.1", server.port), server.add_listener)


def _start_host_realizer(folder: Path, file_systems: Path, server: "Server") -> "HostRealizer":
    from localcloud.hosts import capability, programs
    from localcloud.hosts.realizer import Realizer

    ready = programs.prepare_programs(logging.getLogger("localcloud.hosts").info)
    limit, privileged = capability.read_host_limit(), capability.are_hosts_privileged()
    return Realizer(folder, file_systems, server.add_listener, ready, limit, privileged=privileged)


if __name__ == "__main__":
    sys.exit(main())
