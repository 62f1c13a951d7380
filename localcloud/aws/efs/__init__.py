"""EFS features that moto lacks: lifecycle states, updates, backup and file system policies, and AWS's errors."""


def extend_moto() -> None:
    """Register this service's operations."""
    from localcloud.aws.efs import access_points, file_systems, mount_targets, mounting, policies  # noqa: F401
