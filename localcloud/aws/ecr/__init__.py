"""ECR: encryption keys, lifecycle policies, and errors that moto lacks. Docker cannot push to it or pull from it: nodes
pull images from `localcloud.images.registry`."""


def install() -> None:
    """Register this service's operations."""
    from localcloud.aws.ecr import lifecycle_policies, repositories  # noqa: F401
