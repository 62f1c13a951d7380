"""`gpumpi-join`: run the service. `gpumpi-join --failed LOG`: upload the log of a failed boot and have the node
replaced. `gpumpi-join --waiting REASON`: upload the reason why the boot is taking longer.
"""

import argparse
import logging
import sys
from pathlib import Path

import boto3
from botocore.config import Config

from gpumpi_join import machine
from gpumpi_join.bucket import Bucket, build_own_s3_prefix
from gpumpi_join.cluster_file import BadClusterFile, ClusterFile
from gpumpi_join.giving_up import TAIL_BYTES, GivingUp
from gpumpi_join.service import Clients, Service, build_own_notice

CLUSTER_FILE = Path("/etc/gpumpi/cluster.json")
RETRIES = Config(retries={"mode": "standard", "max_attempts": 5}, connect_timeout=5, read_timeout=20)


def main() -> int:
    parser = argparse.ArgumentParser(prog="gpumpi-join", description=__doc__)
    parser.add_argument("--cluster-file", type=Path, default=CLUSTER_FILE)
    parser.add_argument("--failed", type=Path, metavar="LOG", help="report a failed boot: upload this log and abandon the launch")
    parser.add_argument("--waiting", metavar="REASON", help="report why the boot is taking longer: upload this text")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(message)s")
    try:
        cluster = ClusterFile.read(arguments.cluster_file)
    except BadClusterFile as error:
        print(error, file=sys.stderr)
        return 2
    session = boto3.session.Session(region_name=cluster.region)
    clients = Clients(*(session.client(name, config=RETRIES) for name in ("s3", "ec2", "autoscaling")))
    # aws:userid of a role's session: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_variables.html
    identity = session.client("sts", config=RETRIES).get_caller_identity()["UserId"]
    instance_id = machine.read_metadata("instance-id")
    since = arguments.cluster_file.stat().st_mtime
    end = GivingUp(cluster, clients.s3, clients.autoscaling, instance_id=instance_id, identity=identity, since=since)
    if arguments.waiting:
        Bucket(clients.s3, cluster.bucket).put_waiting_reason(
            build_own_s3_prefix(identity), arguments.waiting.encode()[-TAIL_BYTES:]
        )
        return 0
    if arguments.failed:
        end.give_up(arguments.failed.read_bytes() if arguments.failed.exists() else b"no log was written\n")
        return 0
    try:
        notice = build_own_notice(cluster, machine.read_metadata("local-ipv4"))
    except Exception as error:  # systemd restarts the service; report the error if this was the last attempt
        end.give_up_if_due(f"this node's notice could not be created: {error!r}")
        raise
    Service(cluster, clients, instance_id=instance_id, identity=identity, notice=notice, on_delay=end.give_up_if_due).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
