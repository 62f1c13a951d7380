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
from localcloud.images.recipes import versions
from localcloud.images.root import AMIS
from localcloud.instance import LocalCloud
from testkit.aws_clients import REGION
from testkit.waiting import wait_until
from tests.amis.test_templates import provisioners_of
from tests.hosts.cluster import remains
from tests.hosts.conftest import able as able
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

    def described(self) -> dict[str, Any]:
        return dict(self.client("ec2").describe_images(ImageIds=[self.image])["Images"][0])


@pytest.fixture(scope="module")
def built(able: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
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
    assert remains(cloud) == []


def test_the_ami_is_the_newest_with_the_tags_that_stacks_search_for(built: Built) -> None:
    filters = [{"Name": "tag:gpumpi:ami", "Values": ["ec2"]}, {"Name": "tag:gpumpi:openmpi", "Values": ["4"]}]
    images = built.client("ec2").describe_images(Owners=["self"], Filters=filters)["Images"]
    assert max(images, key=lambda image: image["CreationDate"])["ImageId"] == built.image != realizer.AMI.id(REGION)
    tags = {tag["Key"]: tag["Value"] for tag in built.described()["Tags"]}
    assert tags["gpumpi:openmpi-version"] == versions()["openmpi4_debian_version"]
    assert tags["gpumpi:skipped"].split() == sorted(ami.SKIPPED)
    assert built.described()["ImdsSupport"] == "v2.0"


def test_the_build_leaves_nothing_but_the_ami_in_the_account(built: Built) -> None:
    ec2, iam = built.client("ec2"), built.client("iam")
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
    assert sorted(image["ImageId"] for image in owned) == sorted([*preset, built.image]), "no unencrypted copy is left"


def test_the_build_goes_through_session_manager_and_opens_no_port(built: Built) -> None:
    assert any("Starting portForwarding session" in line for line in built.lines)
    template = (AMIS / "ec2.pkr.hcl").read_text()
    assert "temporary_security_group_source" not in template


def test_the_build_saves_a_complete_manifest(built: Built) -> None:
    manifest = json.loads((built.output / "ec2-openmpi4.json").read_text())
    assert manifest["skipped"] == ami.SKIPPED
    assert sorted([*manifest["installed"], *manifest["skipped"]]) == sorted(provisioners_of("ec2"))
    assert manifest["frameworks"] == ["chainermn"]
    assert manifest["source_image"] == versions()["dlami_ubuntu_24_04"]
    assert ami.newest(built.output) == built.image


def test_the_compiled_open_mpi_is_cached_for_the_next_build(built: Built) -> None:
    cached = [file.name for file in (ami.cache_folder() / "built").iterdir()]
    assert any(name.startswith(f"openmpi-{versions()['openmpi4_debian_version']}-") for name in cached)


@pytest.mark.mission("C", "AMI")
def test_a_host_started_from_the_ami_is_ready_for_mpi(built: Built) -> None:
    world = make_world(built.client)
    instance_id = world.run(ImageId=built.image, InstanceType="c5.large", UserData=REPORT)[0]["InstanceId"]

    def report() -> dict[str, str]:
        shown = built.client("ec2").get_console_output(InstanceId=instance_id).get("Output", "")
        reported = dict(re.findall(r"report: (\w+) ?(.*?)\r?$", shown, re.MULTILINE))
        return reported if "end" in reported else {}

    assert wait_until(report) == {
        "cuda": "1",
        "ranks": "2 2",
        "number": "1000",
        "keys": "0",
        "recipe": "0",
        "manifest": versions()["openmpi4_debian_version"],
        "hosts": "1",
        "end": "",
    }
