"""A local cloud with hosts leaves nothing behind, even after a crash."""

import os
import signal
from pathlib import Path

import pytest

from localcloud.hosts.capability import BadLimit, read_host_limit
from localcloud.hosts.realizer import AMI
from localcloud.instance import LocalCloud
from testkit.aws_clients import REGION
from testkit.waiting import wait_until
from tests.hosts.cluster import find_leftovers, list_namespaces
from tests.local_aws.ec2_world import make_world


@pytest.mark.xdist_group("hosts")
def test_a_host_can_power_itself_off_and_start_cleans_up_after_a_killed_local_cloud(
    skip_if_unsupported: None, tmp_path: Path
) -> None:
    cloud = LocalCloud(tmp_path / "cloud")
    cloud.start(print, hosts=True)
    try:
        world = make_world(cloud.clients(REGION))
        data = "#!/bin/sh\npoweroff\n"  # user data runs only once, so the next start does not power off the host again
        instance = world.run(ImageId=AMI.id(REGION), InstanceType="c5.large", UserData=data)[0]["InstanceId"]
        wait_until(lambda: world.describe_instances(instance)[0]["State"]["Name"] == "stopped")
        assert world.describe_instances(instance)[0]["StateReason"]["Code"] == "Client.InstanceInitiatedShutdown"
        world.ec2.start_instances(InstanceIds=[instance])
        wait_until(lambda: [host for host in cloud.hosts() if host.phase == "running"])
        os.kill(cloud.server("aws").pid, signal.SIGKILL)
        wait_until(cloud.list_crashed_servers)
        assert list_namespaces(cloud)
        cloud.start(print)
        assert list_namespaces(cloud) == []
    finally:
        cloud.stop()
    assert find_leftovers(cloud, instance) == []


def test_the_maximum_number_of_hosts_depends_on_memory_or_an_environment_variable() -> None:
    assert read_host_limit({}, memory=64 << 30) == 4
    assert read_host_limit({}, memory=2 << 30) == 2
    assert read_host_limit({"GPUMPI_LOCAL_HOSTS": "16"}, memory=2 << 30) == 16
    with pytest.raises(BadLimit, match="GPUMPI_LOCAL_HOSTS='many'"):
        read_host_limit({"GPUMPI_LOCAL_HOSTS": "many"})
