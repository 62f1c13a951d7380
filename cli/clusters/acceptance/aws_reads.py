"""Read a stack's instances and AMIs from AWS."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from cli.errors import CommandError
from cli.exit_codes import UNREACHABLE
from infra.facts.clients import Clients, Denied, query
from infra.facts.instance_types import InstanceType
from infra.naming import POOL_TAG, STACK_TAG

Answer = TypeVar("Answer")
EFA = ("efa", "efa-only")
"""`InterfaceType` of EFA interfaces."""
PREFIX = "gpumpi:"


@dataclass(frozen=True)
class Instance:
    """An instance of the stack."""

    id: str
    type: str
    image: str
    pool: str
    address: str
    efa: int
    """Number of EFA interfaces."""


@dataclass(frozen=True)
class Image:
    """An AMI of the stack's instances."""

    name: str
    tags: Mapping[str, str]
    """Tags that start with `gpumpi:`; only AMIs built by amis/ have them."""

    def __str__(self) -> str:
        tags = ", ".join(f"{key}={value}" for key, value in sorted(self.tags.items()))
        return f"{self.name} ({tags or f'no {PREFIX} tags'})"


def ask(region: str, question: Callable[[], Answer]) -> Answer:
    """Query AWS. Raises CommandError if the caller lacks the permission."""
    try:
        return query(region, question)
    except Denied as denied:
        raise CommandError(f"you are not allowed to call {denied}; ask for that permission", UNREACHABLE) from None


def of_stack(clients: Clients, stack: str) -> list[Instance]:
    """Return the stack's pending, running and stopping instances, sorted by ID."""
    return _instances(clients, {f"tag:{STACK_TAG}": [stack], "instance-state-name": ["pending", "running", "stopping"]})


def with_ids(clients: Clients, ids: Sequence[str]) -> list[Instance]:
    return _instances(clients, {"instance-id": list(ids)}) if ids else []


def _instances(clients: Clients, wanted: Mapping[str, Sequence[str]]) -> list[Instance]:
    filters = [{"Name": name, "Values": list(values)} for name, values in wanted.items()]
    pages = ask(clients.region, lambda: list(clients.ec2.get_paginator("describe_instances").paginate(Filters=filters)))
    described = [one for page in pages for entry in page["Reservations"] for one in entry["Instances"]]
    return sorted((_instance(one) for one in described), key=lambda one: one.id)


def _instance(described: Mapping[str, Any]) -> Instance:
    tags = {tag["Key"]: tag["Value"] for tag in described.get("Tags", ())}
    interfaces = described.get("NetworkInterfaces", ())
    return Instance(
        described["InstanceId"],
        described["InstanceType"],
        described["ImageId"],
        tags.get(POOL_TAG, ""),
        described.get("PrivateIpAddress") or "",
        sum(one.get("InterfaceType") in EFA for one in interfaces),
    )


def images(clients: Clients, ids: Sequence[str]) -> dict[str, Image]:
    """Return the AMIs, keyed by ID. Deregistered AMIs are missing, although instances of such AMIs keep running."""
    wanted = sorted(set(ids))
    if not wanted:
        return {}
    filters = [{"Name": "image-id", "Values": wanted}]
    answer = ask(clients.region, lambda: clients.ec2.describe_images(Filters=filters))
    return {one["ImageId"]: Image(one.get("Name", ""), _own_tags(one)) for one in answer["Images"]}


def _own_tags(described: Mapping[str, Any]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in described.get("Tags", ()) if tag["Key"].startswith(PREFIX)}


def instance_type(clients: Clients, name: str) -> InstanceType:
    answer = ask(clients.region, lambda: clients.ec2.describe_instance_types(InstanceTypes=[name]))
    return InstanceType.from_ec2(answer["InstanceTypes"][0])
