"""Third-party audit: checkov scans the resources of every stack as a Terraform plan."""

from pathlib import Path
from typing import Any

import pytest

from tests.audit.exceptions import Exceptions
from tests.audit.scanner import Report, scan
from tests.audit.terraform_plan import Recorded, build_plan
from tests.program.engine import deploy
from tests.program.worlds import STACKS, start_local_account

EXCEPTIONS = Exceptions("exceptions.yaml")

MUST_BE_JUDGED = {
    # EKS: logging, endpoint access, secrets encryption, Kubernetes version
    *("CKV_AWS_37", "CKV_AWS_38", "CKV_AWS_39", "CKV_AWS_58", "CKV_AWS_339"),
    # Launch templates and node groups
    *("CKV_AWS_79", "CKV_AWS_341", "CKV_AWS_88", "CKV_AWS_46", "CKV_AWS_100"),
    # No open ingress
    *("CKV_AWS_23", "CKV_AWS_24", "CKV_AWS_25", "CKV_AWS_260", "CKV_AWS_277", "CKV_AWS_130"),
    # Flow logs, locked default security group, no unused security group
    *("CKV2_AWS_5", "CKV2_AWS_11", "CKV2_AWS_12"),
    # EFS
    *("CKV_AWS_42", "CKV_AWS_184", "CKV_AWS_329", "CKV_AWS_330"),
    # KMS
    *("CKV_AWS_7", "CKV_AWS_33", "CKV_AWS_227", "CKV2_AWS_64"),
    # CloudWatch Logs
    *("CKV_AWS_66", "CKV_AWS_158"),
    # S3
    *("CKV_AWS_19", "CKV_AWS_20", "CKV_AWS_53", "CKV_AWS_57", "CKV_AWS_70", "CKV_AWS_93", "CKV2_AWS_6", "CKV2_AWS_65"),
    # IAM
    *(
        "CKV_AWS_60",
        "CKV_AWS_61",
        "CKV_AWS_274",
        "CKV_AWS_286",
        "CKV_AWS_288",
        "CKV_AWS_289",
        "CKV_AWS_290",
        "CKV_AWS_355",
    ),
}
"""Checks that at least one resource must pass, because an empty scan would also report no failures."""

pytestmark = [pytest.mark.xdist_group("checkov"), pytest.mark.mission_only]


def record_resources(path: Path) -> list[Recorded]:
    with start_local_account(path) as (settings, facts, mocks):
        deploy(settings, facts, mocks)
        aws_resources = [resource for resource in mocks.resources if resource.token.startswith("aws:")]
        return [
            Recorded(resource.token, resource.name, resource.inputs, {**resource.state, "id": resource.id})
            for resource in aws_resources
        ]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Scan all stacks at once. Resource names of different stacks differ, because they begin with the stack's name."""
    return scan(build_plan(record_resources(path) for path in STACKS), tmp_path_factory.mktemp("scan"))


def test_checkov_finds_only_documented_exceptions(report: Report) -> None:
    assert EXCEPTIONS.find_unexplained(report) == set()


def test_checkov_runs_the_expected_checks(report: Report) -> None:
    assert report.passed >= MUST_BE_JUDGED


def test_every_checkov_exception_is_needed_and_has_a_reason(report: Report) -> None:
    assert EXCEPTIONS.find_unneeded(report) == []


OPEN_GROUP = Recorded(
    "aws:ec2/securityGroup:SecurityGroup",
    "planted-group",
    {"description": "planted", "ingress": [{"protocol": "tcp", "fromPort": 22, "toPort": 22, "cidrBlocks": ["0.0.0.0/0"]}]},
    {"id": "sg-1"},
)
OPEN_RULE = Recorded(
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule",
    "planted-rule",
    {"ipProtocol": "tcp", "fromPort": 22, "toPort": 22, "cidrIpv4": "0.0.0.0/0", "securityGroupId": "sg-1"},
    {"id": "sgr-1"},
)
PLAIN_FILE_SYSTEM = Recorded("aws:efs/fileSystem:FileSystem", "planted-files", {"encrypted": False}, {"id": "fs-1"})
PLAIN_DISK = Recorded(
    "aws:ebs/volume:Volume", "planted-disk", {"availabilityZone": "us-west-2a", "size": 8, "encrypted": False}, {"id": "vol-1"}
)
PLAIN_TEMPLATE = Recorded(
    "aws:ec2/launchTemplate:LaunchTemplate", "planted-template", {"metadataOptions": {"httpTokens": "optional"}}, {"id": "lt-1"}
)


@pytest.mark.parametrize(
    ("planted", "check"),
    [
        pytest.param(OPEN_GROUP, "CKV_AWS_24", id="open security group"),
        pytest.param(OPEN_RULE, "CKV_AWS_24", id="open security group rule"),
        pytest.param(PLAIN_DISK, "CKV_AWS_3", id="unencrypted disk"),
        pytest.param(PLAIN_FILE_SYSTEM, "CKV_AWS_42", id="unencrypted file system"),
        pytest.param(PLAIN_TEMPLATE, "CKV_AWS_79", id="IMDSv1"),
    ],
)
def test_checkov_detects_planted_faults(planted: Recorded, check: str, planted_report: Report) -> None:
    failures: list[Any] = [
        failure for failure in planted_report.failures if failure.check == check and planted.name in failure.resource
    ]
    assert failures, planted_report.failures


@pytest.fixture(scope="module")
def planted_report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return scan(
        build_plan([[OPEN_GROUP, OPEN_RULE, PLAIN_FILE_SYSTEM, PLAIN_DISK, PLAIN_TEMPLATE]]), tmp_path_factory.mktemp("planted")
    )
