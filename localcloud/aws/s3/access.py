"""Disable moto's bucket policy check, which ignores conditions. The gateway has already checked every request."""

from typing import Any

from moto.iam.access_control import PermissionResult
from moto.s3.models import FakeBucket


def extend_moto() -> None:
    def get_permission(self: Any, action: str, resource: str) -> Any:
        return PermissionResult.PERMITTED

    FakeBucket.get_permission = get_permission  # type: ignore[method-assign]
