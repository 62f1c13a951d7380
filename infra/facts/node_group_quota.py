"""EKS quota for managed node groups per cluster, which limits the number of pools."""

from typing import Final

from infra.facts.vcpu_quotas import Quota
from infra.settings.stack import Settings

NODE_GROUPS: Final = Quota("L-6D54EA21", "Managed node groups per cluster")
DEFAULT_NODE_GROUPS: Final = 30.0
"""https://docs.aws.amazon.com/eks/latest/userguide/service-quotas.html"""


def number_of_node_groups(settings: Settings) -> int:
    return len(settings.pools) + 1


def exceeds_default(settings: Settings) -> bool:
    """True if the stack needs more node groups than the default quota allows. AWS never sets an account's quota below
    the default."""
    return settings.is_eks and number_of_node_groups(settings) > DEFAULT_NODE_GROUPS
