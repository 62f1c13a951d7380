"""Host names of ECR registries.

In most Regions, EKS's own images are in registries of the same AWS account. Each of the other Regions has its own
account.
"""

import re
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


_SUFFIXES: Final = {
    "aws-cn": "amazonaws.com.cn",
    "aws-eusc": "amazonaws.eu",
    "aws-iso": "c2s.ic.gov",
    "aws-iso-b": "sc2s.sgov.gov",
    "aws-iso-e": "cloud.adc-e.uk",
    "aws-iso-f": "csp.hci.ic.gov",
}
"""DNS suffixes of partitions, from botocore's partitions.json. All other partitions use `amazonaws.com`."""


def find_eks_registry(region: str) -> str:
    """Return the host name of the ECR registry that holds EKS's own images in this Region."""
    partition = "aws-cn" if region.startswith("cn-") else "aws"
    return build_account_registry(_ACCOUNTS.get(region, DEFAULT_ACCOUNT), region, partition)


def build_account_registry(account: str, region: str, partition: str) -> str:
    """Return the host name of an account's registry."""
    return f"{account}.dkr.ecr.{region}.{_SUFFIXES.get(partition, 'amazonaws.com')}"


ECR_HOST: Final = re.compile(r"(?P<account>\d{12})\.dkr\.ecr(-fips)?\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(\.cn)?")
"""https://docs.aws.amazon.com/AmazonECR/latest/userguide/Registries.html"""


def parse_ecr_repository(name: str) -> tuple[str, str, str] | None:
    """Return the account, Region and name of an ECR repository; None for any other registry.

    >>> parse_ecr_repository("123456789012.dkr.ecr.us-west-2.amazonaws.com/gpumpi-a/mpi")
    ('123456789012', 'us-west-2', 'gpumpi-a/mpi')
    """
    host, _, rest = name.partition("/")
    match = ECR_HOST.fullmatch(host)
    return (match["account"], match["region"], rest) if match else None
