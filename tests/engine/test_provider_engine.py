"""The provider emulator with the real Pulumi engine: the lifecycle of a small network."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from testkit.projects import Project, client

NETWORK = """
    import pulumi
    import pulumi_aws as aws

    config = pulumi.Config()
    cidr = config.get("cidr") or "10.0.0.0/16"
    vpc = aws.ec2.Vpc("net", cidr_block=cidr, enable_dns_hostnames=config.get_bool("dns"), tags={"Name": "net"})
    for number in range(2):
        aws.ec2.Subnet(
            f"part{number}",
            vpc_id=vpc.id,
            cidr_block=cidr.replace("0.0/16", f"{number}.0/24"),
            tags={"Name": f"part{number}", "secret": config.get_secret("password") or "none"},
        )
    pulumi.export("vpc", vpc.id)
"""


@pytest.fixture
def network(project: Project) -> Project:
    project.create(NETWORK)
    return project


def test_a_network_lives_from_preview_to_destroy(network: Project) -> None:
    ec2 = client(network.cloud, "ec2")
    before = len(ec2.describe_vpcs()["Vpcs"])

    preview = network.run("preview")
    assert (preview.ok, preview.changes) == (True, {"create": 4}), preview.output
    assert len(ec2.describe_vpcs()["Vpcs"]) == before, "a preview creates nothing"

    up = network.run("up")
    assert (up.ok, up.changes) == (True, {"create": 4}), up.output
    vpc = network.state()["net"]["id"]
    assert len(ec2.describe_subnets(Filters=[{"Name": "vpc-id", "Values": [vpc]}])["Subnets"]) == 2

    again = network.run("up")
    assert (again.ok, again.changes) == (True, {}), again.output

    destroy = network.run("destroy")
    assert (destroy.ok, destroy.changes) == (True, {"delete": 4}), destroy.output
    assert len(ec2.describe_vpcs()["Vpcs"]) == before


def test_a_changed_attribute_is_updated_in_place(network: Project) -> None:
    network.run("up")
    vpc = network.state()["net"]["id"]
    network.configure("dns", "true")
    up = network.run("up")
    assert up.changes == {"update": 1}, up.output
    answer = client(network.cloud, "ec2").describe_vpc_attribute(VpcId=vpc, Attribute="enableDnsHostnames")
    assert answer["EnableDnsHostnames"]["Value"] is True


def test_another_address_range_replaces_the_network_and_its_resources(network: Project) -> None:
    network.run("up")
    old = network.state()["net"]["id"]
    network.configure("cidr", "10.1.0.0/16")
    preview = network.run("preview", "--diff")
    assert 'cidrBlock: "10.0.0.0/16" => "10.1.0.0/16"' in preview.output
    up = network.run("up")
    assert up.changes == {"replace": 3}, up.output
    vpcs = {vpc["VpcId"]: vpc["CidrBlock"] for vpc in client(network.cloud, "ec2").describe_vpcs()["Vpcs"]}
    assert old not in vpcs
    assert vpcs[network.state()["net"]["id"]] == "10.1.0.0/16"


def test_drift_shows_after_a_refresh_and_is_reverted(network: Project) -> None:
    network.run("up")
    vpc = network.state()["net"]["id"]
    ec2 = client(network.cloud, "ec2")
    ec2.create_tags(Resources=[vpc], Tags=[{"Key": "Name", "Value": "mine"}])
    part = network.state()["part0"]["id"]
    ec2.delete_subnet(SubnetId=part)

    refresh = network.run("refresh")
    assert refresh.changes == {"update": 1, "delete": 1}, refresh.output
    assert network.state()["net"]["inputs"]["tags"] == {"Name": "mine"}

    up = network.run("up")
    assert up.changes == {"update": 1, "create": 1}, up.output
    assert [tag["Value"] for tag in ec2.describe_vpcs(VpcIds=[vpc])["Vpcs"][0]["Tags"]] == ["net"]


def test_stacks_of_two_regions_run_at_once_without_interference(network: Project) -> None:
    other = network.add_stack("east", "us-east-1")
    with ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(lambda project: project.run("up"), (network, other)))
    assert all(outcome.ok for outcome in outcomes), [outcome.output for outcome in outcomes]
    for project, region in ((network, "us-west-2"), (other, "us-east-1")):
        vpc = project.state()["net"]["id"]
        assert client(network.cloud, "ec2", region).describe_vpcs(VpcIds=[vpc])["Vpcs"]
        assert project.state()["part0"]["outputs"]["availabilityZone"].startswith(region)


def test_a_secret_input_is_a_secret_in_the_state(network: Project) -> None:
    network.configure("password", "correct horse", "--secret")
    assert network.run("up").ok
    part = network.state()["part0"]
    assert "correct horse" not in str(part)
    for side in ("inputs", "outputs"):
        assert "ciphertext" in part[side]["tags"]["secret"], side
        assert part[side]["tags"]["Name"] == "part0", "only secret values are encrypted"
