"""Auto Scaling's errors. https://docs.aws.amazon.com/autoscaling/ec2/APIReference/CommonErrors.html"""

from typing import Any

from localcloud.aws.errors import AwsError


def build_validation_error(message: str) -> AwsError:
    return AwsError("ValidationError", message)


def find_group(backend: Any, name: str | None) -> Any:
    """Return moto's object for a group. Raise AWS's error if the name is missing or unknown."""
    if not name:
        raise build_validation_error("AutoScalingGroup name must be specified")
    group = backend.autoscaling_groups.get(name)
    if group is None:
        raise build_validation_error(f"AutoScalingGroup name not found - AutoScalingGroup '{name}' not found")
    return group
