"""`scripts/cluster acceptance`: queries to the local AWS in this process, and stacks that the command rejects."""

from pathlib import Path

import pytest

from cli.clusters.acceptance import acceptance_command, aws_reads
from cli.clusters.acceptance.report import Notebook
from cli.clusters.acceptance.target import Options
from cli.clusters.kubernetes_access import Access
from cli.ec2.ec2_instances import DeployedEc2Cluster
from cli.errors import CommandError
from infra.facts.clients import Clients
from tests.program.engine import deploy
from tests.program.worlds import ROOT, start_local_account

STACK, REGION = "local-ec2", "us-west-2"
FOLDER = ROOT / "stacks"


def test_leftovers_are_found_but_terminated_instances_do_not_count() -> None:
    with start_local_account(FOLDER / f"Pulumi.{STACK}.yaml") as (settings, facts, mocks):
        clients = Clients(REGION)
        assert aws_reads.find_leftovers(clients, STACK) == []
        deploy(settings, facts, mocks)
        leftovers = aws_reads.find_leftovers(clients, STACK)
        kinds = {text.rpartition(" ")[0] for text in leftovers}
        assert kinds >= {"instance", "volume", "VPC", "NAT gateway", "address", "Auto Scaling group", "file system", "bucket"}, (
            leftovers
        )
        assert aws_reads.find_leftovers(clients, "another") == []
        head_node = DeployedEc2Cluster(STACK, FOLDER).head_node()
        assert f"instance {head_node.id}" in leftovers
        clients.ec2.terminate_instances(InstanceIds=[head_node.id])
        after = aws_reads.find_leftovers(clients, STACK)
        assert f"instance {head_node.id}" not in after
        assert sum(text.startswith("volume ") for text in leftovers) == 1 + sum(text.startswith("volume ") for text in after)

        gateway = next(text for text in leftovers if text.startswith("NAT gateway ")).rpartition(" ")[2]
        clients.ec2.delete_nat_gateway(NatGatewayId=gateway)
        assert f"NAT gateway {gateway}" not in aws_reads.find_leftovers(clients, STACK), "its tags outlive it"

        notes = Notebook()
        aws_reads.check_destroy(clients, STACK, lambda stack: None, notes)
        assert notes.failures[0].startswith("left after destroy: ")


def test_leftovers_include_lustre_log_groups_and_placement_groups() -> None:
    with start_local_account(FOLDER / "Pulumi.10-fsx-lustre.yaml") as (settings, facts, mocks):
        clients = Clients(settings.region)
        deploy(settings, facts, mocks)
        leftovers = aws_reads.find_leftovers(clients, settings.stack)
        lustre = [file_system["FileSystemId"] for file_system in clients.fsx.describe_file_systems()["FileSystems"]]
        assert lustre and {f"file system {file_system_id}" for file_system_id in lustre} <= set(leftovers)
        logs = {"log group /aws/eks/gpumpi-10-fsx-lustre/cluster", "log group /gpumpi/10-fsx-lustre/flow-logs"}
        kinds = {text.rpartition(" ")[0] for text in leftovers}
        assert logs <= set(leftovers) and kinds >= {"placement group", "security group", "launch template"}
        assert aws_reads.find_recreated_log_group(clients, settings.stack) == ""


def test_a_log_group_recreated_by_eks_is_reported_but_is_not_a_failure() -> None:
    with start_local_account(FOLDER / f"Pulumi.{STACK}.yaml"):
        clients, notes = Clients(REGION), Notebook()
        clients.logs.create_log_group(logGroupName="/aws/eks/gpumpi-gone/cluster")
        aws_reads.check_destroy(clients, "gone", lambda stack: None, notes)
        assert notes.failures == []
        assert ("/aws/eks/gpumpi-gone/cluster", "recreated by EKS for its last audit logs; the next `pulumi up` deletes it") in [
            (entry.source, entry.value) for entry in notes.evidence
        ]


@pytest.mark.parametrize("name", ["/aws/eks/gpumpi-gone/cluster", "/gpumpi/gone/flow-logs"])
def test_a_log_group_not_recreated_by_eks_is_a_leftover(name: str) -> None:
    with start_local_account(FOLDER / f"Pulumi.{STACK}.yaml"):
        clients = Clients(REGION)
        clients.logs.create_log_group(logGroupName=name)
        clients.logs.put_retention_policy(logGroupName=name, retentionInDays=90)
        assert aws_reads.find_leftovers(clients, "gone") == [f"log group {name}"]
        assert aws_reads.find_recreated_log_group(clients, "gone") == ""


def test_instances_of_a_stack_are_listed_with_their_amis() -> None:
    with start_local_account(FOLDER / f"Pulumi.{STACK}.yaml") as (settings, facts, mocks):
        deploy(settings, facts, mocks)
        clients = Clients(REGION)
        running = aws_reads.list_stack_instances(clients, STACK)
        assert [instance.type for instance in running] == ["c7i.large"] * 4
        images = aws_reads.read_images(clients, [instance.image for instance in running])
        assert all("gpumpi:ami=ec2" in str(images[instance.image]) for instance in running)
        assert aws_reads.read_instance_type(clients, "g5.8xlarge").gpus == 1
        assert aws_reads.list_stack_instances(clients, "another") == [] and aws_reads.list_instances(clients, []) == []


def test_acceptance_refuses_a_cluster_without_aws_instances(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="acceptance checks stacks of kind eks and ec2, not existing") as refused:
        acceptance_command.command("09-on-premises", chosen=Options(), access=Access(), output=tmp_path)
    assert refused.value.code == 2
