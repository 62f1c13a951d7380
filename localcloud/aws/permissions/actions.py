"""IAM's names of actions: https://docs.aws.amazon.com/service-authorization/latest/reference/

Most have the name of the operation, after the service's prefix. `resource_types.yaml` lists the types of resources that
actions have. An action that is not listed there is allowed only by statements for all resources.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import yaml

from localcloud.aws.call import Call

RESOURCE_TYPES = Path(__file__).with_name("resource_types.yaml")

_PREFIXES = {
    "cloudwatch": "cloudwatch",
    "efs": "elasticfilesystem",
    "service-quotas": "servicequotas",
    "elbv2": "elasticloadbalancing",
    "resourcegroupstaggingapi": "tag",
    "resource-groups": "resource-groups",
}
"""boto3's name of a service -> prefix of its actions, where they differ."""

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The parser in C, ten times as fast, where PyYAML has it."""

_RENAMED = {
    ("kms", "ReEncrypt"): "ReEncryptFrom",
    ("ecr", "PutAccountSetting"): "PutRegistryScanningConfiguration",
}
"""Operations whose action has another name, except those of S3 (localcloud/aws/s3/actions.py)."""


def prefix_of(service: str) -> str:
    return _PREFIXES.get(service, service)


def name_of(call: Call) -> str:
    """Return the action of a call, such as `elasticfilesystem:CreateFileSystem`."""
    return f"{prefix_of(call.service)}:{_RENAMED.get((call.service, call.operation), call.operation)}"


@cache
def resource_types() -> Mapping[str, tuple[str, ...]]:
    """Return action -> types of its resources. A `+` marks a type that every request for the action has."""
    by_service: dict[str, dict[str, str | None]] = yaml.load(RESOURCE_TYPES.read_text(), _LOADER)
    return {
        f"{prefix}:{name}": tuple((types or "").split())
        for prefix, by_name in by_service.items()
        for name, types in by_name.items()
    }
