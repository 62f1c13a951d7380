"""Which stack files go through their whole lifecycle on the engine, and what every stack file uses."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from infra.config import stack_file
from tests.program.worlds import STACKS

URNS = Path(__file__).parents[1] / "golden" / "urns"

LIFECYCLE: Final = {
    "05-existing-vpc-and-efs": "EKS in an existing VPC with an existing file system, endpoint in the network only; eu-west-1",
    "06-closed-network": "EKS in a private cluster's network: no NAT, interface endpoints, no platform; us-east-1",
    "08-ec2-mnist": "EC2 cluster with defaults: no port open, one NAT gateway, on-demand workers, a head node of another type",
    "full-ec2": "EC2 cluster with every setting: SSH from outside, AMI, user, spot workers, a head node that runs ranks",
    "full": "EKS with every setting: admins, protection, EFS, all kinds of capacity (on-demand, spot, both ODCR, capacity block)",
}
"""Stack -> what only it, or mainly it, covers. Together they use all that any stack file uses; the other stacks are previewed."""
IN_KUBERNETES: Final = ("platform", "jobs")
"""Left out where an EKS cluster is a record: the demo, test_platform_changes.py and tests/kubernetes install and run them."""
FREE_KEYS: Final = ("tags", "pools[].labels", "target.addonVersions")
"""Maps whose keys the user chooses."""
CHOICES: Final = ("kind", "natGateways", "placementGroup")
"""Settings whose values each lead to other resources."""


def name_of(file: Path) -> str:
    return file.name.removeprefix("Pulumi.").removesuffix(".yaml")


def used() -> dict[str, set[str]]:
    """Stack -> settings, choices and types of AWS resources, each with the kind of target: EKS and EC2 clusters share little."""
    return {name_of(file): _used_by(file) for file in STACKS}


def _used_by(file: Path) -> set[str]:
    values = {key: value for key, value in stack_file.read(file).values.items() if key not in IN_KUBERNETES}
    kind = values["target"]["kind"]
    return {f"{kind} {one}" for one in (*_settings(values), *resource_types(name_of(file)))}


def _settings(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, dict) and path not in FREE_KEYS:
        for key, inner in value.items():
            yield from _settings(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for inner in value:
            yield from _settings(inner, f"{path}[]" if isinstance(inner, dict) else path)
    else:
        yield path
        if isinstance(value, bool) or path.rpartition(".")[2] in CHOICES:
            yield f"{path}={value}"


def resource_types(name: str) -> Iterator[str]:
    """Types with those of their parents, e.g. gpumpi:infra:Network$aws:ec2/vpc:Vpc."""
    for line in (URNS / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        chain = line.partition("::")[0]
        if chain.rpartition("$")[2].startswith("aws:"):
            yield chain
