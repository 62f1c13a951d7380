"""The provider emulator with the real Pulumi engine, when operations fail."""

import pytest

from testkit.projects import Project, call_control_api, create_client, kill_engine
from testkit.waiting import wait_until

NETWORK = """
    import pulumi
    import pulumi_aws as aws

    vpc = aws.ec2.Vpc("net", cidr_block="10.0.0.0/16", enable_dns_hostnames=True{options})
    aws.ec2.Subnet("part", vpc_id=vpc.id, cidr_block="10.0.0.0/24")
"""
LIMIT = {"service": "ec2", "operation": "CreateSubnet", "code": "SubnetLimitExceeded", "message": "The limit is 200."}
ATTRIBUTE = {"service": "ec2", "operation": "ModifyVpcAttribute", "code": "UnauthorizedOperation", "message": "No."}


CLUSTER = """
    import pulumi_aws as aws

    vpc = aws.ec2.Vpc("net", cidr_block="10.0.0.0/16")
    parts = [
        aws.ec2.Subnet(f"part{zone}", vpc_id=vpc.id, cidr_block=f"10.0.{number}.0/24", availability_zone=f"us-west-2{zone}")
        for number, zone in enumerate("ab")
    ]
    trust = '{"Version": "2012-10-17", "Statement": [' \\
        '{"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "eks.amazonaws.com"}}]}'
    role = aws.iam.Role("control", assume_role_policy=trust)
    aws.eks.Cluster("train", role_arn=role.arn, vpc_config={"subnet_ids": [part.id for part in parts]})
"""


def list_own_vpcs(project: Project) -> list[str]:
    vpcs = create_client(project.cloud, "ec2").describe_vpcs(Filters=[{"Name": "is-default", "Values": ["false"]}])["Vpcs"]
    return [vpc["VpcId"] for vpc in vpcs]


def test_a_create_error_reports_resource_and_cause_and_the_next_up_creates_the_rest(project: Project) -> None:
    project.create(NETWORK.replace("{options}", ""))
    call_control_api(project.cloud, "POST", "faults", LIMIT)
    failed = project.run("up")
    assert failed.exit_code != 0
    error = next(error for error in failed.errors if "SubnetLimitExceeded" in error)
    assert error.startswith(
        "creating EC2 Subnet (part): operation error EC2: CreateSubnet, https response error StatusCode: 400,"
    )
    assert error.endswith("api error SubnetLimitExceeded: The limit is 200.")

    again = project.run("up")
    assert (again.ok, again.changes.get("create")) == (True, 1), again.output
    assert len(list_own_vpcs(project)) == 1


def test_a_half_created_resource_is_kept_and_accepted_by_the_next_up(project: Project) -> None:
    """Like the official provider, the emulator records the requested inputs. Only a refresh detects that AWS reports
    other values."""
    project.create(NETWORK.replace("{options}", ""))
    call_control_api(project.cloud, "POST", "faults", ATTRIBUTE)
    failed = project.run("up")
    assert "creating EC2 VPC (net): operation error EC2: ModifyVpcAttribute" in failed.errors[0], failed.output
    recorded = project.state()["net"]
    assert (recorded["id"], "UnauthorizedOperation" in str(recorded["initErrors"])) == (list_own_vpcs(project)[0], True)

    again = project.run("up")
    assert (again.ok, again.changes.get("create")) == (True, 1), again.output
    assert list_own_vpcs(project) == [recorded["id"]]
    assert "initErrors" not in project.state()["net"]

    assert project.run("refresh").changes == {"update": 1}
    assert project.run("up").changes == {"update": 1}
    answer = create_client(project.cloud, "ec2").describe_vpc_attribute(VpcId=recorded["id"], Attribute="enableDnsHostnames")
    assert answer["EnableDnsHostnames"]["Value"] is True


def test_a_program_can_replace_a_half_created_resource(project: Project) -> None:
    options = ', opts=pulumi.ResourceOptions(replace_on_changes=["#initerror"])'
    project.create(NETWORK.replace("{options}", options))
    call_control_api(project.cloud, "POST", "faults", ATTRIBUTE)
    project.run("up")
    halfway = list_own_vpcs(project)
    again = project.run("up")
    assert again.ok, again.output
    assert again.changes["replace"] == 1
    assert len(list_own_vpcs(project)) == 1
    assert list_own_vpcs(project) != halfway


@pytest.mark.checkpoints
def test_a_killed_engine_ends_only_its_own_waits(project: Project) -> None:
    """The official provider's process exits together with its engine, which ends the waits. AWS continues the
    operation."""
    project.create(CLUSTER)
    # With this factor, creating a cluster takes a minute. Later changes to the factor do not affect a creation in progress.
    call_control_api(project.cloud, "PUT", "delays", {"factor": 0.1})
    eks = create_client(project.cloud, "eks")
    log, creation = project.cloud.folder / "logs" / "provider.log", "Create tiny::aws:eks/cluster:Cluster::train: "
    other = Project(project.cloud, project.folder.parent / "other", "other")
    other.create(CLUSTER)
    try:
        with project.run_in_background("up") as (engine, _), other.run_in_background("up") as (other_engine, events):
            wait_until(lambda: len(eks.list_clusters()["clusters"]) == 2)
            assert creation not in log.read_text(), "the provider still waits for the cluster"
            kill_engine(engine)
            wait_until(lambda: creation in log.read_text())
            assert log.read_text().count(creation) == 1, "the provider still waits for the other engine's cluster"
            assert other_engine.poll() is None
            call_control_api(project.cloud, "PUT", "delays", {"factor": 0})
            other_engine.communicate()
            assert other_engine.returncode == 0, events.errors
    finally:
        call_control_api(project.cloud, "PUT", "delays", {"factor": 0})
    assert set(project.state()) >= {"net", "parta", "partb", "control"}, "the state records completed steps"
    assert "train" not in project.state()

    project.run_pulumi("cancel", "--yes", "--stack", project.stack)
    assert project.run("up").ok
    assert len(eks.list_clusters()["clusters"]) == 3, "the new run does not adopt the killed engine's cluster"


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (
            'aws.ec2.Vpc("net", cidr_block="10.0.0.0/16", ipv4_ipam_pool_id="ipam-pool-1")',
            'the local provider does not support "ipv4IpamPoolId" of aws:ec2/vpc:Vpc',
        ),
        ('aws.sqs.Queue("jobs")', "the local provider does not support the resource type aws:sqs/queue:Queue"),
        ("aws.get_region()", "the local provider does not support functions: cannot invoke aws:index/getRegion:getRegion"),
        (
            'aws.Provider("other", region="us-west-2", profile="work")',
            "the local provider does not support the provider setting profile; it accepts only region",
        ),
        (
            'import os\nfor name in ("AWS_REGION", "AWS_DEFAULT_REGION"):\n    os.environ.pop(name, None)\naws.Provider("other")',
            "Missing region configuration. Set it with `pulumi config set aws:region <region>`",
        ),
    ],
)
def test_an_input_that_is_not_emulated_is_refused_in_the_preview(project: Project, program: str, message: str) -> None:
    project.create(f"import pulumi_aws as aws\n{program}\n")
    preview = project.run("preview")
    assert preview.exit_code != 0
    assert message in preview.output
