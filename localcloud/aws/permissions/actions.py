"""IAM action names: https://docs.aws.amazon.com/service-authorization/latest/reference/

Most action names consist of the service's prefix and the operation's name. `resource_types.yaml` lists each action's
resource types. An action that is missing from that file is allowed only by statements whose resource is `*`.
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
    "s3control": "s3",
    "service-quotas": "servicequotas",
    "elbv2": "elasticloadbalancing",
    "resourcegroupstaggingapi": "tag",
    "resource-groups": "resource-groups",
}
"""Maps a service name in boto3 to the prefix of the service's actions, where the two differ."""

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""PyYAML's C parser if PyYAML was built with it: it is ten times as fast as the Python parser."""

_RENAMED = {
    ("kms", "ReEncrypt"): "ReEncryptFrom",
    ("ecr", "PutAccountSetting"): "PutRegistryScanningConfiguration",
}
"""Maps an operation to the name of its action, where the two differ. S3's names are in localcloud/aws/s3/actions.py."""


def get_action_prefix(service: str) -> str:
    return _PREFIXES.get(service, service)


def action_name(call: Call) -> str:
    """Return the action of a call, such as `elasticfilesystem:CreateFileSystem`."""
    return f"{get_action_prefix(call.service)}:{_RENAMED.get((call.service, call.operation), call.operation)}"


@cache
def load_resource_types() -> Mapping[str, tuple[str, ...]]:
    """Return each action's resource types. A `+` marks a type that every request for the action includes."""
    by_service: dict[str, dict[str, str | None]] = yaml.load(RESOURCE_TYPES.read_text(), _LOADER)
    return {
        f"{prefix}:{name}": tuple((types or "").split())
        for prefix, by_name in by_service.items()
        for name, types in by_name.items()
    }
