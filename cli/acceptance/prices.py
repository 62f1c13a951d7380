"""Dated on-demand prices in USD per hour, Linux. A type or Region that is not listed has no price here, never zero.

Sources:
- us-east-1: aws/karpenter-provider-aws@v1.15.1:pkg/providers/pricing/zz_generated.pricing_aws.go, generated 2026-07-20;
  c7i.large, g5.12xlarge and g6.8xlarge: the same file at 031e72b, generated 2026-01-19
- us-west-2, us-east-2 and eu-west-1: AWS's bulk price files of 2026-09-11 to 2026-09-24, as quoted in a public note;
  us-west-2 and us-east-2 have the price of us-east-1 for the types in `SAME_IN_THE_WEST`
- EKS: 0.10 per cluster in standard support, from the same bulk price files
NOT VERIFIED against a bill.
"""

from collections.abc import Mapping
from typing import Final

DATE: Final = "2026-01-19 to 2026-09-24"
EKS_CLUSTER: Final = 0.10

_US_EAST_1: Final[Mapping[str, float]] = {
    "c7i.large": 0.08925,
    "c7i.2xlarge": 0.357,
    "m7i.large": 0.1008,
    "g5.xlarge": 1.006,
    "g5.4xlarge": 1.624,
    "g5.8xlarge": 2.448,
    "g5.12xlarge": 5.672,
    "g5.48xlarge": 16.288,
    "g6.xlarge": 0.8048,
    "g6.4xlarge": 1.3232,
    "g6.8xlarge": 2.0144,
    "g6.12xlarge": 4.6016,
    "g6.48xlarge": 13.3504,
    "g6e.4xlarge": 3.00424,
    "g6e.48xlarge": 30.13118,
    "p4d.24xlarge": 21.957642,
    "p4de.24xlarge": 27.44705,
    "p5.4xlarge": 6.88,
    "p5.48xlarge": 55.04,
    "p5en.48xlarge": 63.296,
    "p6-b200.48xlarge": 113.9328,
}
SAME_IN_THE_WEST: Final = frozenset(
    {
        *("m7i.large", "g5.4xlarge", "g5.48xlarge", "g6.4xlarge", "g6.48xlarge", "g6e.4xlarge", "g6e.48xlarge"),
        *("p4d.24xlarge", "p4de.24xlarge", "p5.4xlarge", "p5.48xlarge", "p5en.48xlarge", "p6-b200.48xlarge"),
    }
)
_IN_THE_WEST: Final = {name: _US_EAST_1[name] for name in SAME_IN_THE_WEST}

PRICES: Final[Mapping[str, Mapping[str, float]]] = {
    "us-east-1": _US_EAST_1,
    "us-west-2": _IN_THE_WEST,
    "us-east-2": _IN_THE_WEST,
    "eu-west-1": {"m7i.large": 0.11235, "g5.4xlarge": 1.81287, "g5.48xlarge": 18.18233, "p4d.24xlarge": 23.71569},
}


def per_hour(instance_type: str, region: str) -> float | None:
    """Return the price of one instance, or None if it is unknown."""
    return PRICES.get(region, {}).get(instance_type)
