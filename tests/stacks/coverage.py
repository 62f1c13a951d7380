"""The stack files whose whole lifecycle is tested with the Pulumi engine, and the features that each stack file
uses.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from infra.config import stack_file
from tests.program.worlds import STACKS

URNS = Path(__file__).parents[1] / "golden" / "urns"

LIFECYCLE: Final = {
    "05-existing-vpc-and-efs": "EKS in an existing VPC with an existing file system and a private endpoint; eu-west-1",
    "06-closed-network": "EKS in a VPC without NAT: interface endpoints, no platform; us-east-1",
    "08-ec2-mnist": "EC2 cluster with defaults: no open port, one NAT gateway, On-Demand workers, a head node of another type",
    "full-ec2": "EC2 cluster with every setting: public SSH, AMI, user, Spot workers, a head node that runs ranks",
    "full": "EKS with every setting: admins, protection, EFS, all capacity kinds (On-Demand, Spot, both ODCR, capacity block)",
}
"""Maps each stack to the features that it covers. Together these stacks use every feature of all stack files; the other stacks
are only previewed.
"""
IN_KUBERNETES: Final = ("platform", "jobs")
"""Settings that the coverage check skips, because its EKS clusters exist only as API records. The demo,
test_platform_changes.py and tests/kubernetes cover these settings.
"""
FREE_KEYS: Final = ("tags", "pools[].labels", "target.addonVersions")
"""Maps whose keys the user chooses."""
CHOICES: Final = ("kind", "natGateways", "placementGroup")
"""Settings whose values each create different resources."""


def get_stack_name(file: Path) -> str:
    return file.name.removeprefix("Pulumi.").removesuffix(".yaml")


def map_used_settings() -> dict[str, set[str]]:
    """Return each stack's settings, choices and AWS resource types. Each item has the target kind as a prefix, because
    EKS and EC2 clusters have little in common.
    """
    return {get_stack_name(file): _list_used_settings(file) for file in STACKS}


def _list_used_settings(file: Path) -> set[str]:
    values = {key: value for key, value in stack_file.read_stack_file(file).values.items() if key not in IN_KUBERNETES}
    kind = values["target"]["kind"]
    return {f"{kind} {setting}" for setting in (*_list_settings(values), *list_resource_types(get_stack_name(file)))}


def _list_settings(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, dict) and path not in FREE_KEYS:
        for key, inner in value.items():
            yield from _list_settings(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for inner in value:
            yield from _list_settings(inner, f"{path}[]" if isinstance(inner, dict) else path)
    else:
        yield path
        if isinstance(value, bool) or path.rpartition(".")[2] in CHOICES:
            yield f"{path}={value}"


def list_resource_types(name: str) -> Iterator[str]:
    """Yield AWS resource types, each after the types of its parents, such as gpumpi:infra:Network$aws:ec2/vpc:Vpc."""
    for line in (URNS / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        chain = line.partition("::")[0]
        if chain.rpartition("$")[2].startswith("aws:"):
            yield chain
