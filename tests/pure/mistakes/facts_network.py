"""Network and file system mistakes found with facts from AWS."""

from infra.facts import FileSystem
from tests.pure.mistakes.case import WHERE, A, B, FactsCase
from tests.pure.world import (
    FILE_SYSTEM,
    VPC,
    existing_network,
    pool,
    subnet,
    subnet_id,
    subnets,
    vpc,
)

CASES: dict[str, FactsCase] = {
    # existing VPC
    "VPC and subnets that do not exist": (
        {"network": existing_network()},
        [],
        {"vpc": None, "subnets": {}, "not_found": frozenset({VPC, subnet_id("a"), subnet_id("b")})},
        [
            f'network.vpcId: "{VPC}" does not exist in {WHERE}. Use an existing VPC.',
            f'network.subnetIds[0]: "{subnet_id("a")}" does not exist in {WHERE}. Use an existing subnet.',
            f'network.subnetIds[1]: "{subnet_id("b")}" does not exist in {WHERE}. Use an existing subnet.',
        ],
    ),
    "VPC without host names": (
        {"network": existing_network()},
        [],
        {"vpc": vpc(dns_hostnames=False)},
        [f"network.vpcId: {VPC} has enableDnsHostnames disabled, so nodes cannot find the cluster. Enable it."],
    ),
    "VPC over the services": (
        {"network": existing_network()},
        [],
        {"vpc": vpc(cidrs=("10.0.0.0/16", "172.20.128.0/17"))},
        [
            f"network.vpcId: {VPC} has 172.20.128.0/17, which overlaps 172.20.0.0/16, the CIDR of Kubernetes services. "
            "Use another VPC."
        ],
    ),
    "subnet of another VPC": (
        {"network": existing_network()},
        [],
        {"subnets": subnets(subnet("a"), subnet("b", vpc_id="vpc-99999999"))},
        [f"network.subnetIds[1]: {subnet_id('b')} is in vpc-99999999, not in {VPC}. Use a subnet of vpc-0123456789abcdef0."],
    ),
    "public subnet": (
        {"network": existing_network()},
        [],
        {"subnets": subnets(subnet("a", is_public=True), subnet("b"))},
        [
            f"network.subnetIds[0]: {subnet_id('a')} is public: it has a route to an internet gateway. Use a private "
            "subnet, because nodes get no public addresses."
        ],
    ),
    "subnet without a route out of the VPC": (
        {"network": existing_network()},
        [],
        {
            "subnets": subnets(subnet("a"), subnet("b", has_route_out=False)),
            "endpoints": frozenset({"ec2", "ecr.api", "ecr.dkr", "sts"}),
        },
        [
            f"network.subnetIds[1]: {subnet_id('b')} has no route out of the VPC, and {VPC} has no endpoints for eks, "
            "eks-auth, elasticfilesystem and s3. Route the subnet to a NAT or transit gateway, or create the endpoints."
        ],
    ),
    "subnet without a route to CloudWatch, although jobs send their logs there": (
        {"network": existing_network(), "platform": {"jobLogs": "cloudwatch"}},
        [],
        {
            "subnets": subnets(subnet("a"), subnet("b", has_route_out=False)),
            "endpoints": frozenset({"ec2", "ecr.api", "ecr.dkr", "eks", "eks-auth", "elasticfilesystem", "s3", "sts"}),
        },
        [
            f"network.subnetIds[1]: {subnet_id('b')} has no route out of the VPC, and {VPC} has no endpoints for logs. "
            "Route the subnet to a NAT or transit gateway, or create the endpoints."
        ],
    ),
    "subnets of one zone": (
        {"network": existing_network()},
        [],
        {"subnets": subnets(subnet("a"), subnet("b", zone=A))},
        ["network.subnetIds: are all in us-west-2a. EKS needs subnets in at least two zones."],
    ),
    "subnet with too few free addresses for EKS": (
        {"network": existing_network(subnet_id("a"), subnet_id("b"), subnet_id("c"))},
        [],
        {"subnets": subnets(subnet("a"), subnet("b"), subnet("c", zone=B, free_addresses=5))},
        [f"network.subnetIds[2]: {subnet_id('c')} has 5 free addresses, but EKS needs 6 in each subnet"],
    ),
    # addresses
    "existing subnets too small": (
        {"network": existing_network()},
        [pool(maxSize=20, zone=B)],
        {"subnets": subnets(subnet("a"), subnet("b", free_addresses=200))},
        [
            "network.subnetIds: have 200 free addresses in us-west-2b, but its nodes (at most 3 of system and 20 of "
            "train) need 299 (13 each). Use larger subnets, or lower maxSize."
        ],
    ),
    "new CIDR too small": (
        {"network": {"cidr": "10.0.0.0/20"}},
        [pool(maxSize=20)],
        {},
        [
            "network.cidr: 10.0.0.0/20 gives us-west-2a 251 addresses, but its nodes (at most 3 of system and 20 of "
            "train) need 299 (13 each). Use a larger CIDR, or lower maxSize."
        ],
    ),
    # existing file system
    "no such file system": (
        {"network": existing_network(), "storage": {"efs": {"fileSystemId": FILE_SYSTEM}}},
        [],
        {"not_found": frozenset({FILE_SYSTEM})},
        [f'storage.efs.fileSystemId: "{FILE_SYSTEM}" is not an EFS file system of {WHERE}. Use an existing one.'],
    ),
    "file system without a mount target in a zone": (
        {"network": existing_network(), "storage": {"efs": {"fileSystemId": FILE_SYSTEM}}},
        [],
        {"efs": {FILE_SYSTEM: FileSystem(FILE_SYSTEM, "available", {A: VPC})}},
        [f"storage.efs.fileSystemId: {FILE_SYSTEM} has no mount target in us-west-2b, where nodes may run. Create one there."],
    ),
    "file system in another VPC": (
        {"network": existing_network(), "storage": {"efs": {"fileSystemId": FILE_SYSTEM}}},
        [],
        {"efs": {FILE_SYSTEM: FileSystem(FILE_SYSTEM, "available", {A: "vpc-99999999", B: "vpc-99999999"})}},
        [f"storage.efs.fileSystemId: {FILE_SYSTEM} is in vpc-99999999, not in {VPC}. Use the same VPC."],
    ),
    "file system whose mount target does not admit the nodes": (
        {"network": existing_network(), "storage": {"efs": {"fileSystemId": FILE_SYSTEM}}},
        [],
        {
            "efs": {
                FILE_SYSTEM: FileSystem(
                    FILE_SYSTEM,
                    "available",
                    {A: VPC, B: VPC},
                    {
                        A: {"sg-1": frozenset({"10.0.0.0/24", "sg-others"}), "sg-2": frozenset()},
                        B: {"sg-3": frozenset({"10.0.0.0/16"})},
                    },
                    frozenset({"sg-nodes"}),
                )
            }
        },
        [
            f"storage.efs.fileSystemId: {FILE_SYSTEM} does not admit nodes in us-west-2a: no rule of sg-1 or sg-2 allows TCP "
            f"2049 from {subnet_id('a')} (10.0.0.0/20). Add rules for TCP 2049, or set storage.efs.addIngressRule: true."
        ],
    ),
    "file system that is being deleted": (
        {"network": existing_network(), "storage": {"efs": {"fileSystemId": FILE_SYSTEM}}},
        [],
        {"efs": {FILE_SYSTEM: FileSystem(FILE_SYSTEM, "deleting", {A: VPC, B: VPC})}},
        [f"storage.efs.fileSystemId: {FILE_SYSTEM} is deleting. Use one that is available."],
    ),
}
