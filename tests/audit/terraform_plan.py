"""Convert Pulumi resources to a Terraform plan, the format that third-party scanners read.

pulumi_aws is bridged from the Terraform provider, so the conversion is mechanical. A Pulumi module and
type become `aws_*`, camelCase becomes snake_case, and a single object becomes a block (a list of one object).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

NO_PREFIX = ("ec2",)
"""Pulumi modules whose names are not part of the Terraform type."""
TYPES = {
    "aws:autoscaling/tag:Tag": "aws_autoscaling_group_tag",
    "aws:s3/bucket:Bucket": "aws_s3_bucket",
    "aws:ec2/flowLog:FlowLog": "aws_flow_log",
}
BLOCK_NAMES = {
    "encryption_configurations": "encryption_configuration",
    "rules": "rule",
    "taints": "taint",
    "lifecycle_policies": "lifecycle_policy",
    "pod_identity_associations": "pod_identity_association",
}
"""Repeated blocks: plural names in Pulumi, mapped to singular names in Terraform."""
MAPS = {"tags", "tags_all", "labels"}
"""Properties that are maps in Terraform, not blocks."""


@dataclass(frozen=True)
class Recorded:
    """A resource recorded by the Pulumi mocks."""

    token: str
    name: str
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]


def to_terraform_type(token: str) -> str:
    """Return the Terraform type of a Pulumi type token: `aws:ec2/launchTemplate:LaunchTemplate` is
    `aws_launch_template`."""
    if token in TYPES:
        return TYPES[token]
    module, kind = token.split(":")[1].split("/")
    parts = [] if module in NO_PREFIX else [module]
    return "_".join(["aws", *parts, _to_snake_case(kind)])


def build_plan(stacks: Iterable[Iterable[Recorded]]) -> dict[str, Any]:
    """Return the JSON of `terraform show -json` for several stacks, limited to the fields that scanners read.

    Different stacks' accounts can contain the same IDs, so references are resolved within each stack.
    """
    planned, changes, configured = [], [], []
    for stack in stacks:
        recorded = [resource for resource in stack if resource.token.startswith("aws:")]
        addresses = {id(resource): f"{to_terraform_type(resource.token)}.{_to_label(resource.name)}" for resource in recorded}
        origins = _map_references(recorded, addresses)
        for resource in recorded:
            address = addresses[id(resource)]
            planned.append(_plan_resource(resource, address))
            changes.append(_build_change(resource, address))
            configured.append(_find_references(resource, address, origins))
    return {
        "format_version": "1.2",
        "terraform_version": "1.9.0",
        "planned_values": {"root_module": {"resources": planned}},
        "resource_changes": changes,
        "configuration": {"root_module": {"resources": configured}},
    }


def _plan_resource(resource: Recorded, address: str) -> dict[str, Any]:
    kind, label = address.split(".")
    return {
        "address": address,
        "mode": "managed",
        "type": kind,
        "name": label,
        "provider_name": "registry.terraform.io/hashicorp/aws",
        "values": convert_inputs(resource.inputs),
    }


def _build_change(resource: Recorded, address: str) -> dict[str, Any]:
    planned = _plan_resource(resource, address)
    after = planned.pop("values")
    return {**planned, "change": {"actions": ["create"], "before": None, "after": after, "after_unknown": {}}}


def _find_references(resource: Recorded, address: str, origins: Mapping[str, str]) -> dict[str, Any]:
    """Return the resource's references to other resources.

    Scanners need the references, for example to find the flow log of a VPC.
    """
    kind, label = address.split(".")
    expressions: dict[str, Any] = {}
    for name, value in resource.inputs.items():
        references = sorted(
            {origins[text] for text in _list_strings(value) if text in origins and not origins[text].startswith(f"{address}.")}
        )
        if references:
            whole = [reference.rsplit(".", 1)[0] for reference in references]
            expressions[_to_snake_case(name)] = {"references": [*references, *whole]}
    return {"address": address, "mode": "managed", "type": kind, "name": label, "expressions": expressions}


def _map_references(recorded: Iterable[Recorded], addresses: Mapping[int, str]) -> dict[str, str]:
    """Map each ARN, ID and name in the outputs to its Terraform reference."""
    references: dict[str, str] = {}
    for resource in recorded:
        for attribute in ("arn", "id", "name"):
            value = resource.outputs.get(attribute)
            if isinstance(value, str) and value:
                references.setdefault(value, f"{addresses[id(resource)]}.{attribute}")
    return references


def _list_strings(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _list_strings(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _list_strings(inner)


def convert_inputs(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Convert Pulumi inputs to Terraform attributes and blocks."""
    result: dict[str, Any] = {}
    for name, value in inputs.items():
        key = _to_snake_case(name)
        if key == "tags" and isinstance(value, list):  # in Terraform, an Auto Scaling group's tags are blocks
            result["tag"] = [convert_inputs(entry) for entry in value]
            continue
        if key in MAPS:
            result[key] = dict(value)
            continue
        key = BLOCK_NAMES.get(key, key)
        if isinstance(value, Mapping):
            result[key] = [convert_inputs(value)]
        elif isinstance(value, list | tuple) and value and isinstance(value[0], Mapping):
            result[key] = [convert_inputs(entry) for entry in value]
        else:
            result[key] = value
    return result


def _to_snake_case(camel: str) -> str:
    return re.sub(r"(?<!^)([A-Z])", lambda match: "_" + match.group(1).lower(), camel)


def _to_label(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "-", name)
