"""The EKS quota that limits managed node groups, and so pools, per cluster."""

from typing import Final

from infra.facts.vcpu_quotas import Quota
from infra.settings.stack import Settings

NODE_GROUPS: Final = Quota("L-6D54EA21", "Managed node groups per cluster")
DEFAULT_NODE_GROUPS: Final = 30.0
"""https://docs.aws.amazon.com/eks/latest/userguide/service-quotas.html"""


def number_of_node_groups(settings: Settings) -> int:
    return len(settings.pools) + 1


def exceeds_default(settings: Settings) -> bool:
    """Whether the account's own value of the quota matters; AWS lowers none below the default."""
    return settings.is_eks and number_of_node_groups(settings) > DEFAULT_NODE_GROUPS
