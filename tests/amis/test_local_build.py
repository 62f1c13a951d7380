"""`packer build` of the EC2 cluster AMI in a local cloud, and a host launched from that AMI."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3.session
import pytest

from localcloud.hosts import ami, realizer
from localcloud.images.recipes import read_pinned_versions
from localcloud.images.root import AMIS
from localcloud.instance import LocalCloud
from testkit.aws_clients import REGION
from testkit.waiting import wait_until
from tests.amis.test_templates import list_provisioners
from tests.hosts.cluster import find_leftovers
from tests.hosts.conftest import skip_if_unsupported as skip_if_unsupported
from tests.local_aws.ec2_world import make_world

pytestmark = [pytest.mark.xdist_group("packer"), pytest.mark.mission_only]

REPORT = """#!/bin/bash
say() { echo "report: $*"; }
cat >/home/mpiuser/ranks.py <<END
import chainermn
print(chainermn.create_communicator("naive").size)
END
say cuda $(ompi_info --parsable --all | grep --count mpi_built_with_cuda_support:value:true)
say ranks $(su mpiuser -c "cd && mpirun --oversubscribe -n 2 python ranks.py")
say number $(id -u mpiuser)
say keys $(cat ~root/.ssh/authorized_keys /home/*/.ssh/authorized_keys | grep --count packer)
say recipe $(ls /tmp/amis /tmp/cache /opt/amis | wc -l)
say manifest $(python -c "import json; print(json.load(open('/etc/gpumpi/manifest.json'))['mpi']['version'])")
say hosts $(cat /etc/ssh/ssh_host_ed25519_key.pub | wc -l)
say end
"""


@dataclass
class Built:
    """Result of an AMI build."""

    cloud: LocalCloud
    client: Any
    image: str
    output: Path
    lines: list[str]

    def describe_image(self) -> dict[str, Any]:
        return dict(self.client("ec2").describe_images(ImageIds=[self.image])["Images"][0])


@pytest.fixture(scope="module")
def built_ami(skip_if_unsupported: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    folder = tmp_path_factory.mktemp("ami")
    cloud, lines = LocalCloud(folder / "cloud"), list[str]()
    cloud.start(print, hosts=True)
    try:
        image = ami.build(cloud, REGION, lines.append, folder / "out", frameworks=["chainermn"])
        own = cloud.environment()
        session = boto3.session.Session(own["AWS_ACCESS_KEY_ID"], own["AWS_SECRET_ACCESS_KEY"], region_name=REGION)
        yield Built(
            cloud, lambda service: session.client(service, endpoint_url=own["AWS_ENDPOINT_URL"]), image, folder / "out", lines
        )
    finally:
        cloud.stop()
    assert find_leftovers(cloud) == []


def test_the_built_ami_is_the_newest_with_the_tags_used_by_stacks(built_ami: Built) -> None:
    filters = [{"Name": "tag:gpumpi:ami", "Values": ["ec2"]}, {"Name": "tag:gpumpi:openmpi", "Values": ["4"]}]
    images = built_ami.client("ec2").describe_images(Owners=["self"], Filters=filters)["Images"]
    assert max(images, key=lambda image: image["CreationDate"])["ImageId"] == built_ami.image != realizer.AMI.id(REGION)
    tags = {tag["Key"]: tag["Value"] for tag in built_ami.describe_image()["Tags"]}
    assert tags["gpumpi:openmpi-version"] == read_pinned_versions()["openmpi4_debian_version"]
    assert tags["gpumpi:skipped"].split() == sorted(ami.SKIPPED)
    assert built_ami.describe_image()["ImdsSupport"] == "v2.0"


def test_the_build_leaves_only_the_ami_in_the_account(built_ami: Built) -> None:
    ec2, iam = built_ami.client("ec2"), built_ami.client("iam")
    instances = [instance for entry in ec2.describe_instances()["Reservations"] for instance in entry["Instances"]]
    assert {instance["State"]["Name"] for instance in instances} == {"terminated"}
    assert ec2.describe_key_pairs()["KeyPairs"] == []
    groups = ec2.describe_security_groups()["SecurityGroups"]
    assert [group["GroupName"] for group in groups if group["GroupName"] != "default"] == []
    assert [role["RoleName"] for role in iam.list_roles()["Roles"] if role["RoleName"].startswith("packer")] == []
    assert iam.list_instance_profiles()["InstanceProfiles"] == []
    assert ec2.describe_vpcs(Filters=[{"Name": "tag:Name", "Values": ["gpumpi-ami-build"]}])["Vpcs"] == []
    owned = ec2.describe_images(Owners=["self"])["Images"]
    preset = [image.id(REGION) for image in realizer.AMIS.values()]
    assert sorted(image["ImageId"] for image in owned) == sorted([*preset, built_ami.image]), "no unencrypted copy is left"


def test_the_build_connects_through_session_manager_and_opens_no_port(built_ami: Built) -> None:
    assert any("Starting portForwarding session" in line for line in built_ami.lines)
    template = (AMIS / "ec2.pkr.hcl").read_text()
    assert "temporary_security_group_source" not in template


def test_the_build_saves_a_complete_manifest(built_ami: Built) -> None:
    manifest = json.loads((built_ami.output / "ec2-openmpi4.json").read_text())
    assert manifest["skipped"] == ami.SKIPPED
    assert sorted([*manifest["installed"], *manifest["skipped"]]) == sorted(list_provisioners("ec2"))
    assert manifest["frameworks"] == ["chainermn"]
    assert manifest["source_image"] == read_pinned_versions()["dlami_ubuntu_24_04"]
    assert ami.read_built_ami_id(built_ami.output) == built_ami.image


def test_the_compiled_open_mpi_is_cached_for_the_next_build(built_ami: Built) -> None:
    cached = [file.name for file in (ami.cache_folder() / "built").iterdir()]
    assert any(name.startswith(f"openmpi-{read_pinned_versions()['openmpi4_debian_version']}-") for name in cached)


@pytest.mark.mission("C", "AMI")
def test_a_host_started_from_the_ami_is_ready_for_mpi(built_ami: Built) -> None:
    world = make_world(built_ami.client)
    instance_id = world.run(ImageId=built_ami.image, InstanceType="c5.large", UserData=REPORT)[0]["InstanceId"]

    def read_report() -> dict[str, str]:
        shown = built_ami.client("ec2").get_console_output(InstanceId=instance_id).get("Output", "")
        reported = dict(re.findall(r"report: (\w+) ?(.*?)\r?$", shown, re.MULTILINE))
        return reported if "end" in reported else {}

    assert wait_until(read_report) == {
        "cuda": "1",
        "ranks": "2 2",
        "number": "1000",
        "keys": "0",
        "recipe": "0",
        "manifest": read_pinned_versions()["openmpi4_debian_version"],
        "hosts": "1",
        "end": "",
    }
