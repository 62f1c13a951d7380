"""Priced items other than instances, and their names in AWS's Price List.

Each item is one row of the Price List in a Region. In most Regions, usage types have a prefix (`USE2-`, `EU-`).
Instance prices are queried separately, with `INSTANCE_FILTERS`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

Item = str
"""Name of an item: a key of `ITEMS`."""


@dataclass(frozen=True)
class PriceRow:
    """Identifies the row of the Price List that contains an item's price."""

    service: str
    """`ServiceCode` of GetProducts."""
    usage_type: str
    """Attribute `usagetype`, without the Region prefix; empty if the attributes alone select the row."""
    unit: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    """Additional attributes that select the row."""

    def has_usage_type(self, usage_type: str) -> bool:
        """Return whether a row has this usage type, apart from the Region prefix.

        `USE2-NatGateway-Hours` matches `NatGateway-Hours`; `RegionalNatGateway-Hours` does not.

        >>> ITEMS["nat-gateway-hour"].has_usage_type("USE2-NatGateway-Hours")
        True
        """
        return not self.usage_type or re.fullmatch(rf"(?:[A-Z0-9]+-)?{re.escape(self.usage_type)}", usage_type) is not None


INSTANCE_SERVICE: Final = "AmazonEC2"
INSTANCE_FILTERS: Final = {
    "productFamily": "Compute Instance",
    "operatingSystem": "Linux",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
    "tenancy": "Shared",
    "marketoption": "OnDemand",  # otherwise the result also contains prices of Capacity Blocks
}
"""Filters for the on-demand price of an instance type, besides `regionCode` and `instanceType`."""


def _build_lustre_row(megabytes_per_tib: str, deployment: str) -> PriceRow:
    """Return the row for FSx for Lustre on SSDs, whose price depends on the throughput.

    NOT VERIFIED: the attributes are the ones that AWS lists for FSx (2026-11-23). If the Price List uses other
    attributes, no row matches, and the price is unknown.
    """
    attributes = {
        "productFamily": "Storage",
        "fileSystemType": "Lustre",
        "storageType": "SSD",
        "deploymentOption": deployment,
        "throughputCapacity": megabytes_per_tib,
    }
    return PriceRow("AmazonFSx", "", "GB-Mo", attributes)


ITEMS: Final[Mapping[Item, PriceRow]] = {
    "eks-cluster-hour": PriceRow("AmazonEKS", "AmazonEKS-Hours:perCluster", "Hours"),
    "eks-extended-support-hour": PriceRow("AmazonEKS", "AmazonEKS-Hours:extendedSupport", "Hours"),
    "nat-gateway-hour": PriceRow("AmazonEC2", "NatGateway-Hours", "Hrs", {"productFamily": "NAT Gateway"}),
    "nat-gateway-gb": PriceRow("AmazonEC2", "NatGateway-Bytes", "GB", {"productFamily": "NAT Gateway"}),
    "public-ipv4-hour": PriceRow("AmazonVPC", "PublicIPv4:InUseAddress", "Hrs"),
    "gp3-gb-month": PriceRow("AmazonEC2", "EBS:VolumeUsage.gp3", "GB-Mo"),
    "gp3-iops-month": PriceRow("AmazonEC2", "EBS:VolumeP-IOPS.gp3", "IOPS-Mo"),
    "efs-gb-month": PriceRow("AmazonEFS", "TimedStorage-ByteHrs", "GB-Mo"),
    "efs-infrequent-access-gb-month": PriceRow("AmazonEFS", "IATimedStorage-ByteHrs", "GB-Mo"),
    "efs-read-gb": PriceRow("AmazonEFS", "ETDataAccess-Bytes", "GB", {"accessType": "Read"}),
    "efs-write-gb": PriceRow("AmazonEFS", "ETDataAccess-Bytes", "GB", {"accessType": "Write"}),
    "lustre-scratch-gb-month": _build_lustre_row("200", "Scratch"),
    "lustre-125-gb-month": _build_lustre_row("125", "Persistent"),
    "lustre-250-gb-month": _build_lustre_row("250", "Persistent"),
    "lustre-500-gb-month": _build_lustre_row("500", "Persistent"),
    "lustre-1000-gb-month": _build_lustre_row("1000", "Persistent"),
    "vpc-endpoint-hour": PriceRow("AmazonVPC", "VpcEndpoint-Hours", "Hrs", {"productFamily": "VpcEndpoint"}),
    "vpc-endpoint-gb": PriceRow("AmazonVPC", "VpcEndpoint-Bytes", "GB", {"productFamily": "VpcEndpoint"}),
    "kms-key-month": PriceRow("awskms", "KMS-Keys", "Keys"),
    "kms-request": PriceRow("awskms", "KMS-Requests", "Requests"),
    "logs-ingested-gb": PriceRow("AmazonCloudWatch", "DataProcessing-Bytes", "GB"),
    "logs-stored-gb-month": PriceRow("AmazonCloudWatch", "TimedStorage-ByteHrs", "GB-Mo"),
    "zone-traffic-gb": PriceRow("AWSDataTransfer", "DataTransfer-Regional-Bytes", "GB"),
    "s3-gb-month": PriceRow("AmazonS3", "TimedStorage-ByteHrs", "GB-Mo"),
    "internet-egress-gb": PriceRow("AWSDataTransfer", "DataTransfer-Out-Bytes", "GB"),
}
