"""EKS where moto falls short of AWS."""


def install() -> None:
    """Register this service's operations."""
