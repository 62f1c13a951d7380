"""ECR registries of EKS's own images: most Regions use the same AWS account, and the others have their own."""

from typing import Final

DEFAULT_ACCOUNT: Final = "602401143452"

_ACCOUNTS: Final = {
    "af-south-1": "877085696533",
    "ap-east-1": "800184023465",
    "ap-east-2": "533267051163",
    "ap-south-2": "900889452093",
    "ap-southeast-3": "296578399912",
    "ap-southeast-4": "491585149902",
    "ap-southeast-5": "151610086707",
    "ap-southeast-6": "333609536671",
    "ap-southeast-7": "121268973566",
    "ca-west-1": "761377655185",
    "cn-north-1": "918309763551",
    "cn-northwest-1": "961992271922",
    "eu-central-2": "900612956339",
    "eu-south-1": "590381155156",
    "eu-south-2": "455263428931",
    "il-central-1": "066635153087",
    "me-central-1": "759879836304",
    "me-south-1": "558608220178",
    "mx-central-1": "730335286997",
    "us-gov-east-1": "151742754352",
    "us-gov-west-1": "013241004608",
}
"""https://docs.aws.amazon.com/eks/latest/userguide/add-ons-images.html"""


def eks_registry(region: str) -> str:
    """Return the host name of a Region's registry."""
    suffix = ".cn" if region.startswith("cn-") else ""
    return f"{_ACCOUNTS.get(region, DEFAULT_ACCOUNT)}.dkr.ecr.{region}.amazonaws.com{suffix}"
