"""Images, public SSM parameters and service quotas of a Region."""

from typing import Any

import pytest

from localcloud.aws import quotas
from localcloud.aws.images import KUBERNETES_PATCHES
from testkit.aws_clients import Client, LocalAws
from tests.local_aws.refusals import Refusal

SSM = "https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_GetParameter.html"
QUOTA = "https://docs.aws.amazon.com/servicequotas/2019-06-24/apireference/API_GetServiceQuota.html"


def read_parameter(aws: Client, name: str, region: str = "us-west-2") -> str:
    return str(aws("ssm", region).get_parameter(Name=name)["Parameter"]["Value"])


@pytest.mark.parametrize("version", KUBERNETES_PATCHES)
@pytest.mark.parametrize(
    ("architecture", "variant"),
    [("x86_64", "standard"), ("x86_64", "nvidia"), ("x86_64", "neuron"), ("arm64", "standard"), ("arm64", "nvidia")],
)
def test_the_recommended_eks_image_exists(aws: Client, version: str, architecture: str, variant: str) -> None:
    path = f"/aws/service/eks/optimized-ami/{version}/amazon-linux-2023/{architecture}/{variant}/recommended"
    image = aws("ec2").describe_images(ImageIds=[read_parameter(aws, f"{path}/image_id")])["Images"][0]
    assert image["Architecture"] == architecture
    assert variant in image["Name"] and version in image["Name"]
    assert read_parameter(aws, f"{path}/release_version").startswith(f"{version}.")


@pytest.mark.parametrize(
    "name",
    [
        "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64",
        "/aws/service/canonical/ubuntu/server/22.04/stable/current/amd64/hvm/ebs-gp2/ami-id",
        "/aws/service/canonical/ubuntu/server/24.04/stable/current/arm64/hvm/ebs-gp3/ami-id",
        "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id",
    ],
)
def test_every_public_ssm_parameter_names_an_existing_image(aws: Client, name: str) -> None:
    assert aws("ec2").describe_images(ImageIds=[read_parameter(aws, name)])["Images"]


def test_image_ids_differ_between_regions_and_never_change(aws: Client, server: LocalAws) -> None:
    name = "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/nvidia/recommended/image_id"
    here = read_parameter(aws, name)
    assert here != read_parameter(aws, name, "eu-west-1")
    assert here == server.client("ssm").get_parameter(Name=name)["Parameter"]["Value"]


def test_public_ssm_parameters_are_found_by_path(aws: Client) -> None:
    path = "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023"
    pages = aws("ssm").get_paginator("get_parameters_by_path").paginate(Path=path, Recursive=True)
    assert len([parameter for page in pages for parameter in page["Parameters"]]) == 15


REFUSALS = [
    (
        "ssm",
        Refusal(
            "a Kubernetes version that EKS does not offer",
            "get_parameter",
            {"Name": "/aws/service/eks/optimized-ami/1.12/amazon-linux-2023/x86_64/standard/recommended/image_id"},
            "ParameterNotFound",
            SSM,
        ),
    ),
    (
        "ssm",
        Refusal(
            "a reserved name", "put_parameter", {"Name": "/aws/x", "Value": "v", "Type": "String"}, "AccessDeniedException", SSM
        ),
    ),
    (
        "service-quotas",
        Refusal(
            "an unknown quota", "get_service_quota", {"ServiceCode": "ec2", "QuotaCode": "L-0"}, "NoSuchResourceException", QUOTA
        ),
    ),
    (
        "service-quotas",
        Refusal(
            "an unknown service",
            "get_service_quota",
            {"ServiceCode": "ec3", "QuotaCode": "L-417A185B"},
            "NoSuchResourceException",
            QUOTA,
        ),
    ),
    (
        "service-quotas",
        Refusal(
            "an invalid pagination token",
            "list_service_quotas",
            {"ServiceCode": "ec2", "NextToken": "x"},
            "InvalidPaginationTokenException",
            QUOTA,
        ),
    ),
]


@pytest.mark.parametrize(("service", "refusal"), REFUSALS, ids=str)
def test_ssm_and_service_quotas_reject_invalid_requests(aws: Client, service: str, refusal: Refusal) -> None:
    refusal.check(aws(service))


def read_quota(client: Any, code: str, default: bool = False) -> float:
    ask = client.get_aws_default_service_quota if default else client.get_service_quota
    return float(ask(ServiceCode="ec2", QuotaCode=code)["Quota"]["Value"])


@pytest.mark.parametrize(
    "code", ["L-417A185B", "L-DB2E81BA", "L-1216C47A", "L-7212CCBC", "L-C4BD4855", "L-3819A6DF", "L-34B43A08"]
)
def test_the_local_account_has_higher_gpu_quotas_than_a_new_account(aws: Client, code: str) -> None:
    client = aws("service-quotas")
    assert read_quota(client, code, default=True) <= 5
    assert read_quota(client, code) >= 10_000


def test_list_service_quotas_returns_all_quotas_in_pages(aws: Client) -> None:
    pages = (
        aws("service-quotas").get_paginator("list_service_quotas").paginate(ServiceCode="ec2", PaginationConfig={"PageSize": 7})
    )
    listed = [item for page in pages for item in page["Quotas"]]
    assert {item["QuotaCode"] for item in listed} == {quota.code for quota in quotas.EC2_QUOTAS}
    assert all(item["QuotaArn"].startswith("arn:aws:servicequotas:us-west-2:123456789012:ec2/") for item in listed)


def test_a_lowered_quota_lasts_until_the_next_reset(server: LocalAws) -> None:
    server.call_control_api("PUT", "quotas", {"L-417A185B": 0})
    client = server.client("service-quotas")
    assert read_quota(client, "L-417A185B") == 0
    assert read_quota(client, "L-DB2E81BA") >= 10_000
    server.call_control_api("POST", "reset")
    assert read_quota(client, "L-417A185B") >= 10_000
