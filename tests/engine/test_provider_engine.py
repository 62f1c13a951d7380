"""The provider emulator with the real Pulumi engine: the lifecycle of a small network."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from testkit.projects import Project, create_client

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
def network_project(project: Project) -> Project:
    project.create(NETWORK)
    return project


def test_a_network_passes_through_preview_update_and_destroy(network_project: Project) -> None:
    ec2 = create_client(network_project.cloud, "ec2")
    before = len(ec2.describe_vpcs()["Vpcs"])

    preview = network_project.run("preview")
    assert (preview.ok, preview.changes) == (True, {"create": 4}), preview.output
    assert len(ec2.describe_vpcs()["Vpcs"]) == before, "a preview creates nothing"

    up = network_project.run("up")
    assert (up.ok, up.changes) == (True, {"create": 4}), up.output
    vpc = network_project.state()["net"]["id"]
    assert len(ec2.describe_subnets(Filters=[{"Name": "vpc-id", "Values": [vpc]}])["Subnets"]) == 2

    again = network_project.run("up")
    assert (again.ok, again.changes) == (True, {}), again.output

    destroy = network_project.run("destroy")
    assert (destroy.ok, destroy.changes) == (True, {"delete": 4}), destroy.output
    assert len(ec2.describe_vpcs()["Vpcs"]) == before


def test_a_changed_attribute_is_updated_in_place(network_project: Project) -> None:
    network_project.run("up")
    vpc = network_project.state()["net"]["id"]
    network_project.configure("dns", "true")
    up = network_project.run("up")
    assert up.changes == {"update": 1}, up.output
    answer = create_client(network_project.cloud, "ec2").describe_vpc_attribute(VpcId=vpc, Attribute="enableDnsHostnames")
    assert answer["EnableDnsHostnames"]["Value"] is True


def test_a_new_address_range_replaces_the_network_and_its_resources(network_project: Project) -> None:
    network_project.run("up")
    old = network_project.state()["net"]["id"]
    network_project.configure("cidr", "10.1.0.0/16")
    preview = network_project.run("preview", "--diff")
    assert 'cidrBlock: "10.0.0.0/16" => "10.1.0.0/16"' in preview.output
    up = network_project.run("up")
    assert up.changes == {"replace": 3}, up.output
    vpcs = {vpc["VpcId"]: vpc["CidrBlock"] for vpc in create_client(network_project.cloud, "ec2").describe_vpcs()["Vpcs"]}
    assert old not in vpcs
    assert vpcs[network_project.state()["net"]["id"]] == "10.1.0.0/16"


def test_a_refresh_shows_drift_and_the_next_update_reverts_it(network_project: Project) -> None:
    network_project.run("up")
    vpc = network_project.state()["net"]["id"]
    ec2 = create_client(network_project.cloud, "ec2")
    ec2.create_tags(Resources=[vpc], Tags=[{"Key": "Name", "Value": "mine"}])
    part = network_project.state()["part0"]["id"]
    ec2.delete_subnet(SubnetId=part)

    refresh = network_project.run("refresh")
    assert refresh.changes == {"update": 1, "delete": 1}, refresh.output
    assert network_project.state()["net"]["inputs"]["tags"] == {"Name": "mine"}

    up = network_project.run("up")
    assert up.changes == {"update": 1, "create": 1}, up.output
    assert [tag["Value"] for tag in ec2.describe_vpcs(VpcIds=[vpc])["Vpcs"][0]["Tags"]] == ["net"]


def test_stacks_in_two_regions_run_concurrently_without_interference(network_project: Project) -> None:
    other = network_project.add_stack("east", "us-east-1")
    with ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(lambda project: project.run("up"), (network_project, other)))
    assert all(outcome.ok for outcome in outcomes), [outcome.output for outcome in outcomes]
    for project, region in ((network_project, "us-west-2"), (other, "us-east-1")):
        vpc = project.state()["net"]["id"]
        assert create_client(network_project.cloud, "ec2", region).describe_vpcs(VpcIds=[vpc])["Vpcs"]
        assert project.state()["part0"]["outputs"]["availabilityZone"].startswith(region)


def test_a_secret_input_is_a_secret_in_the_state(network_project: Project) -> None:
    network_project.configure("password", "correct horse", "--secret")
    assert network_project.run("up").ok
    part = network_project.state()["part0"]
    assert "correct horse" not in str(part)
    for side in ("inputs", "outputs"):
        assert "ciphertext" in part[side]["tags"]["secret"], side
        assert part[side]["tags"]["Name"] == "part0", "only secret values are encrypted"
