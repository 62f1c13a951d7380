"""Facts that determine whether nodes can launch, in partitions that the local AWS lacks."""

from types import SimpleNamespace
from typing import Any, cast

from infra.facts import ec2
from infra.facts.clients import Clients
from infra.facts.model import EndpointService
from infra.plan.aws_services import find_endpoint_names
from tests.pure.world import account_facts, settings

BEIJING = [
    ("cn.com.amazonaws.cn-north-1.ecr.api", ["cn-north-1a", "cn-north-1b"]),
    ("com.amazonaws.cn-north-1.ssm", ["cn-north-1a"]),
    ("com.amazonaws.vpce.cn-north-1.vpce-svc-0123", ["cn-north-1a"]),
    ("aws.sagemaker.cn-north-1.notebook", ["cn-north-1a"]),
]
"""Service names from https://gist.github.com/readybuilderone/d355f9f8f0f2b66379a10742b3c67cc7 and aws/aws-cdk#16139."""


def make_beijing_clients() -> Clients:
    details = [{"ServiceName": name, "AvailabilityZones": zones} for name, zones in BEIJING]
    pages = SimpleNamespace(paginate=lambda **_: [{"ServiceDetails": details}])
    return cast(Clients, SimpleNamespace(region="cn-north-1", ec2=SimpleNamespace(get_paginator=lambda _: pages)))


def test_endpoint_service_names_are_read_because_prefixes_differ() -> None:
    services = ec2.list_endpoint_services(make_beijing_clients())
    assert services == {
        "ecr.api": EndpointService(BEIJING[0][0], frozenset({"cn-north-1a", "cn-north-1b"})),
        "ssm": EndpointService(BEIJING[1][0], frozenset({"cn-north-1a"})),
    }


def test_endpoints_use_service_names_reported_by_aws() -> None:
    closed: dict[str, Any] = {"natGateways": "none", "interfaceEndpoints": True}
    stack = settings(region="cn-north-1", network=closed)
    observed = account_facts(stack, partition="aws-cn", endpoint_services=ec2.list_endpoint_services(make_beijing_clients()))
    assert find_endpoint_names(stack, observed) == {"ecr.api": BEIJING[0][0], "ssm": BEIJING[1][0]}
