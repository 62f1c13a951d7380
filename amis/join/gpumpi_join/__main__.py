"""`gpumpi-join`: the service. `gpumpi-join --failed LOG`: the boot failed; leave its log in the bucket and be replaced."""

import argparse
import logging
import sys
from pathlib import Path

import boto3
from botocore.config import Config

from gpumpi_join import machine
from gpumpi_join.bucket import Bucket, own_folder
from gpumpi_join.cluster_file import BadClusterFile, ClusterFile
from gpumpi_join.service import Clients, Service, own_notice

CLUSTER_FILE = Path("/etc/gpumpi/cluster.json")
LOG_TAIL_BYTES = 64 * 1024
RETRIES = Config(retries={"mode": "standard", "max_attempts": 5}, connect_timeout=5, read_timeout=20)


def main() -> int:
    parser = argparse.ArgumentParser(prog="gpumpi-join", description=__doc__)
    parser.add_argument("--cluster-file", type=Path, default=CLUSTER_FILE)
    parser.add_argument("--failed", type=Path, metavar="LOG", help="the boot failed, and this is its log")
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
    instance_id = machine.metadata("instance-id")
    if arguments.failed:
        return _give_up(cluster, clients, instance_id, identity, arguments.failed)
    notice = own_notice(cluster, machine.metadata("local-ipv4"))
    Service(cluster, clients, instance_id=instance_id, identity=identity, notice=notice).run()
    return 0


def _give_up(cluster: ClusterFile, clients: Clients, instance_id: str, identity: str, log: Path) -> int:
    text = log.read_bytes()[-LOG_TAIL_BYTES:] if log.exists() else b"no log was written\n"
    Bucket(clients.s3, cluster.bucket).put_boot_log(own_folder(identity), text)
    if not cluster.is_master:
        clients.autoscaling.complete_lifecycle_action(
            AutoScalingGroupName=cluster.auto_scaling_group,
            LifecycleHookName=cluster.lifecycle_hook,
            InstanceId=instance_id,
            LifecycleActionResult="ABANDON",
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
