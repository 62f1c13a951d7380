"""ECR: encryption keys, lifecycle policies, and errors that moto lacks.

Docker cannot push to this ECR or pull from it. Nodes pull images from `localcloud.images.registry`.
"""


def extend_moto() -> None:
    """Register this service's operations."""
    from localcloud.aws.ecr import lifecycle_policies, repositories  # noqa: F401
