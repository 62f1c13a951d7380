"""Sources from which security group rules allow traffic to a port."""

from typing import Any


def sources(permissions: list[dict[str, Any]], port: int) -> frozenset[str]:
    """Return the CIDRs, security groups and prefix lists from which ingress rules allow traffic to a TCP port."""
    found: set[str] = set()
    for one in permissions:
        if one["IpProtocol"] == "-1" or (one["IpProtocol"] == "tcp" and one["FromPort"] <= port <= one["ToPort"]):
            found.update(source["CidrIp"] for source in one.get("IpRanges", ()))
            found.update(source["GroupId"] for source in one.get("UserIdGroupPairs", ()) if "GroupId" in source)
            found.update(source["PrefixListId"] for source in one.get("PrefixListIds", ()))
    return frozenset(found)
