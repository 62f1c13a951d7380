"""Mistakes found without querying AWS: access to the Kubernetes API."""

from tests.pure.mistakes.case import OfflineCase

RESERVED = {
    "0.0.0.0/8": "this network (RFC 1122)",
    "100.64.0.0/10": "carrier-grade NAT (RFC 6598)",
    "127.0.0.1/32": "loopback (RFC 1122)",
    "169.254.169.254/32": "link-local addresses (RFC 3927)",
    "192.0.0.8/29": "IETF protocols (RFC 6890)",
    "198.19.7.0/24": "benchmarks (RFC 2544)",
    "239.1.0.0/16": "multicast (RFC 5771)",
    "255.255.255.255/32": "future use (RFC 1112)",
}


def make_public_cidr_case(cidr: str, problem: str) -> OfflineCase:
    target = {"endpointAccess": {"publicCidrs": ["5.10.20.0/24", cidr]}}
    fix = "List the public addresses of your network (yours: https://checkip.amazonaws.com)."
    return ({"target": target}, [], f'target.endpointAccess.publicCidrs[1]: "{cidr}" {problem}, and EKS refuses it. {fix}')


CASES: dict[str, OfflineCase] = {
    **{
        f"{cidr} as a public CIDR": make_public_cidr_case(cidr, f"is reserved for {purpose}")
        for cidr, purpose in RESERVED.items()
    },
    "public CIDR around loopback": make_public_cidr_case("126.0.0.0/7", "includes 127.0.0.0/8, which is reserved"),
    "public CIDR around a private range": make_public_cidr_case("192.0.0.0/8", "includes 192.168.0.0/16, which is reserved"),
    "IPv6 CIDR": (
        {"target": {"endpointAccess": {"publicCidrs": ["2001:db8::/32"]}}},
        [],
        'target.endpointAccess.publicCidrs[0]: "2001:db8::/32" is not an IPv4 CIDR block. Use one such as 203.0.113.0/24.',
    ),
    "public without CIDRs": (
        {"target": {"endpointAccess": {"public": True}}},
        [],
        "target.endpointAccess.publicCidrs: required because public is true. List the CIDRs to allow, such as [203.0.113.0/24].",
    ),
    "CIDRs without public": (
        {"target": {"endpointAccess": {"public": False, "publicCidrs": ["5.10.20.0/24"]}}},
        [],
        "target.endpointAccess.public: is false, but publicCidrs is not empty. Remove one of these two settings.",
    ),
    "everybody": (
        {"target": {"endpointAccess": {"publicCidrs": ["0.0.0.0/0"]}}},
        [],
        'target.endpointAccess.publicCidrs[0]: "0.0.0.0/0" covers the whole internet. List your own addresses, or set '
        "allowAnywhere: true.",
    ),
    "no CIDR": (
        {"target": {"endpointAccess": {"publicCidrs": ["5.10.20.0/24", "office"]}}},
        [],
        'target.endpointAccess.publicCidrs[1]: "office" is not an IPv4 CIDR block. Use one such as 203.0.113.0/24.',
    ),
    "a single address": (
        {"target": {"endpointAccess": {"publicCidrs": ["5.10.20.30"]}}},
        [],
        'target.endpointAccess.publicCidrs[0]: "5.10.20.30" is a single address, not a CIDR block. Use 5.10.20.30/32.',
    ),
    "whole internet as two CIDR blocks": (
        {"target": {"endpointAccess": {"publicCidrs": ["0.0.0.0/1", "128.0.0.0/1"]}}},
        [],
        "target.endpointAccess.publicCidrs: the entries together cover the whole internet. List your own addresses, or "
        "set allowAnywhere: true.",
    ),
    "example address left in the file": (
        {"target": {"endpointAccess": {"publicCidrs": ["203.0.113.7/32"]}}},
        [],
        'warning: target.endpointAccess.publicCidrs[0]: "203.0.113.7/32" is reserved for documentation (RFC 5737): '
        "EKS refuses it. Use your own (shown by https://checkip.amazonaws.com).",
    ),
    "unset platform.install without a public endpoint": (
        {"platform": {"install": None}},
        [],
        "warning: platform.install: is not set: the Kubernetes API has no public endpoint, so `pulumi up` does not "
        "install the platform and jobs cannot run. List your address in target.endpointAccess.publicCidrs; or set "
        "true, list a network in privateCidrs and run `pulumi up` there; or set false.",
    ),
    "bits of the host": (
        {"target": {"endpointAccess": {"publicCidrs": ["203.0.113.5/24"]}}},
        [],
        'target.endpointAccess.publicCidrs[0]: "203.0.113.5/24" has host bits set. Use 203.0.113.0/24 or 203.0.113.5/32.',
    ),
    "private CIDR": (
        {"target": {"endpointAccess": {"publicCidrs": ["10.1.0.0/16"]}}},
        [],
        'target.endpointAccess.publicCidrs[0]: "10.1.0.0/16" is a private range. Move it to privateCidrs.',
    ),
    "platform that nothing can install": (
        {"platform": {"install": True}, "target": {"endpointAccess": {}}},
        [],
        "target.endpointAccess.privateCidrs: required because platform.install is true and the Kubernetes API has no public "
        "endpoint. List the CIDR of the machine that runs `pulumi up`, such as [10.8.0.0/16].",
    ),
    "cluster that only its nodes reach": (
        {"platform": {"install": False}, "target": {"endpointAccess": {}}},
        [],
        "warning: target.endpointAccess.privateCidrs: is empty, and the Kubernetes API has no public endpoint, so only nodes "
        "can reach it. List the CIDRs of your networks in privateCidrs, or your address in publicCidrs.",
    ),
    "private endpoint for everybody": (
        {"target": {"endpointAccess": {"privateCidrs": ["10.8.0.0/16", "0.0.0.0/0"]}}},
        [],
        'target.endpointAccess.privateCidrs[1]: "0.0.0.0/0" covers the whole internet. List the CIDRs of your own networks.',
    ),
    "IPv6 network at the private endpoint": (
        {"target": {"endpointAccess": {"privateCidrs": ["fd00::/8"]}}},
        [],
        'target.endpointAccess.privateCidrs[0]: "fd00::/8" is not an IPv4 CIDR block. Use one such as 10.8.0.0/16.',
    ),
    "host bits in a network at the private endpoint": (
        {"target": {"endpointAccess": {"privateCidrs": ["10.8.3.0/16"]}}},
        [],
        'target.endpointAccess.privateCidrs[0]: "10.8.3.0/16" has host bits set. Use 10.8.0.0/16 or 10.8.3.0/32.',
    ),
    "the same network twice": (
        {"target": {"endpointAccess": {"privateCidrs": ["100.64.0.0/10", "100.64.0.0/10"]}}},
        [],
        'target.endpointAccess.privateCidrs[1]: "100.64.0.0/10" is listed twice. Remove one.',
    ),
    "loopback addresses at the private endpoint": (
        {"target": {"endpointAccess": {"privateCidrs": ["127.0.0.1/32"]}}},
        [],
        'target.endpointAccess.privateCidrs[0]: "127.0.0.1/32" contains addresses that cannot belong to another machine. Use one '
        "such as 10.8.0.0/16.",
    ),
    "internet addresses at the private endpoint": (
        {"target": {"endpointAccess": {"privateCidrs": ["5.10.20.0/24"]}}},
        [],
        'warning: target.endpointAccess.privateCidrs[0]: "5.10.20.0/24" reaches the private endpoint only over a VPN, Direct '
        "Connect or peering. Internet addresses belong in publicCidrs.",
    ),
    "more networks than one security group has rules": (
        {"target": {"endpointAccess": {"privateCidrs": [f"10.8.{number}.0/24" for number in range(60)]}}},
        [],
        "warning: target.endpointAccess.privateCidrs: has 60 entries, which need as many rules in one security group, but the "
        "default quota of EC2 allows 59 rules in addition to the rule of EKS. Combine neighboring CIDRs, or request a higher "
        "quota of rules per security group.",
    ),
    "CIDR twice": (
        {"target": {"endpointAccess": {"publicCidrs": ["5.10.20.0/24", "5.10.20.0/24"]}}},
        [],
        'target.endpointAccess.publicCidrs[1]: "5.10.20.0/24" is listed twice. Remove one.',
    ),
    "more CIDRs than EKS accepts": (
        {"target": {"endpointAccess": {"publicCidrs": [f"5.10.20.{number}/32" for number in range(41)]}}},
        [],
        "target.endpointAccess.publicCidrs: has 41 entries, but EKS accepts at most 40",
    ),
    "admin that is not an ARN": (
        {"target": {"admins": ["ada"]}},
        [],
        'target.admins[0]: "ada" is not the ARN of an IAM user or role. Use one such as arn:aws:iam::123456789012:role/Admin.',
    ),
    "admin that is root": (
        {"target": {"admins": ["arn:aws:iam::123456789012:root"]}},
        [],
        'target.admins[0]: "arn:aws:iam::123456789012:root" is not the ARN of an IAM user or role. Use one such as '
        "arn:aws:iam::123456789012:role/Admin.",
    ),
    "admin that is a role session": (
        {"target": {"admins": ["arn:aws:sts::123456789012:assumed-role/Ops/ada"]}},
        [],
        'target.admins[0]: "arn:aws:sts::123456789012:assumed-role/Ops/ada" is a role session. Use the ARN of the '
        "role, such as arn:aws:iam::123456789012:role/Ops.",
    ),
    "admin twice": (
        {"target": {"admins": ["arn:aws:iam::123456789012:user/ada"] * 2}},
        [],
        'target.admins[1]: "arn:aws:iam::123456789012:user/ada" is listed twice. Remove one.',
    ),
}
