"""The inventory lists a stack's resources while another Pulumi program runs, without affecting that program."""

import threading
from contextvars import Context

import pulumi_aws as aws
import pytest
from pulumi.runtime.settings import get_monitor, get_root_resource, get_stack

from infra.inventory.resources import list_resources
from tests.program.engine import KEY, VPC, record_deployment
from tests.pure.world import account_facts, ec2_settings, pool, settings


def test_the_inventory_registers_nothing_in_the_running_program() -> None:
    listed: list[int] = []

    def build_stack() -> dict[str, object]:
        first = aws.kms.Key("before")
        before = get_monitor(), get_root_resource(), get_stack()
        in_threads = Context().run(get_monitor)
        stack = settings(pool())
        listed.append(len(list_resources(stack, account_facts(stack)).resources))
        assert (get_monitor(), get_root_resource(), get_stack()) == before
        assert Context().run(get_monitor) is in_threads, "threads of the running program have an empty context"
        second = aws.kms.Key("after", description=first.arn)
        return {"description": second.description}

    deployment = record_deployment("running", build_stack)
    assert [(resource.type, resource.name) for resource in deployment.resources] == [(KEY, "before"), (KEY, "after")]
    assert deployment.outputs["description"].endswith(":before") and listed[0] > 50


def test_the_inventory_leaves_no_thread_running() -> None:
    before = threading.active_count()
    stack = ec2_settings()
    assert list_resources(stack, account_facts(stack)).list_by_type(VPC)
    assert threading.active_count() == before


def test_listing_resources_of_an_unplannable_stack_raises_its_error() -> None:
    stack = settings(pool(zone="us-west-2d"), network={"zones": ["us-west-2a", "us-west-2b"]})
    with pytest.raises(LookupError, match="pool train has no zone"):
        list_resources(stack, account_facts(stack))
