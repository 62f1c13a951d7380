"""Without facts: network, storage, pools."""

from tests.pure.mistakes.case import OfflineCase
from tests.pure.world import FILE_SYSTEM, RESERVATION, existing_network, pool, subnet_id

GROUP = "arn:aws:resource-groups:us-west-2:123456789012:group/gpus"

CASES: dict[str, OfflineCase] = {
    # network
    "CIDR bad": (
        {"network": {"cidr": "10.0.0.0/33"}},
        [],
        'network.cidr: "10.0.0.0/33" is not an IPv4 CIDR block; write one like 10.0.0.0/16',
    ),
    "CIDR with bits of the host": (
        {"network": {"cidr": "10.1.2.0/16"}},
        [],
        'network.cidr: "10.1.2.0/16" has host bits set; write 10.1.0.0/16 or 10.1.2.0/32',
    ),
    "CIDR too small": ({"network": {"cidr": "10.0.0.0/24"}}, [], 'network.cidr: "10.0.0.0/24" is a /24; write a /16 to /20'),
    "CIDR too large": ({"network": {"cidr": "10.0.0.0/8"}}, [], 'network.cidr: "10.0.0.0/8" is a /8; write a /16 to /20'),
    "CIDR that is public": (
        {"network": {"cidr": "8.8.0.0/16"}},
        [],
        'network.cidr: "8.8.0.0/16" is not private; choose from 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16 and 100.64.0.0/10',
    ),
    "CIDR of the services": (
        {"network": {"cidr": "172.20.0.0/16"}},
        [],
        'network.cidr: "172.20.0.0/16" overlaps 172.20.0.0/16, the addresses of Kubernetes services; choose another',
    ),
    "one zone": (
        {"network": {"zones": 1}},
        [],
        "network.zones: asks for 1; EKS needs 2, and this program uses at most 4",
    ),
    "five zones": (
        {"network": {"zones": 5}},
        [],
        "network.zones: asks for 5; EKS needs 2, and this program uses at most 4",
    ),
    "one zone by name": (
        {"network": {"zones": ["us-west-2a"]}},
        [],
        "network.zones: names 1; EKS needs 2, and this program uses at most 4",
    ),
    "no zone by name": (
        {"network": {"zones": []}},
        [],
        "network.zones: names 0; EKS needs 2, and this program uses at most 4",
    ),
    "zone twice": (
        {"network": {"zones": ["us-west-2a", "us-west-2b", "us-west-2a"]}},
        [],
        'network.zones[2]: "us-west-2a" is listed twice; remove one',
    ),
    "no route to the internet": (
        {"network": {"natGateways": "none"}},
        [],
        'network.natGateways: "none" leaves nodes without a route to AWS; add interfaceEndpoints: true',
    ),
    "new and existing VPC": (
        {"network": {**existing_network(), "cidr": "10.0.0.0/16"}},
        [],
        "network.cidr: is for a new VPC, but vpcId names an existing one; remove one of them",
    ),
    "NAT for an existing VPC": (
        {"network": {**existing_network(), "natGateways": "one"}},
        [],
        "network.natGateways: is for a new VPC, but vpcId names an existing one; remove one of them",
    ),
    "VPC without subnets": (
        {"network": {"vpcId": "vpc-0123456789abcdef0"}},
        [],
        "network.subnetIds: is missing; name private subnets of the VPC in at least two zones",
    ),
    "subnets without VPC": (
        {"network": {"subnetIds": [subnet_id("a"), subnet_id("b")]}},
        [],
        "network.vpcId: is missing, but subnetIds names subnets; name their VPC",
    ),
    "VPC that is no id": (
        {"network": {"vpcId": "main", "subnetIds": [subnet_id("a"), subnet_id("b")]}},
        [],
        'network.vpcId: "main" is not the id of a VPC; it looks like vpc-0123456789abcdef0',
    ),
    "subnet twice": (
        {"network": existing_network(subnet_id("a"), subnet_id("b"), subnet_id("a"))},
        [],
        f'network.subnetIds[2]: "{subnet_id("a")}" is listed twice; remove one',
    ),
    # storage
    "mount path that is relative": (
        {"storage": {"efs": {"mountPath": "shared"}}},
        [],
        'storage.efs.mountPath: "shared" is not an absolute path of letters, digits and . _ -; write one like /shared',
    ),
    "mount path that climbs": (
        {"storage": {"efs": {"mountPath": "/data/../etc"}}},
        [],
        'storage.efs.mountPath: "/data/../etc" is not an absolute path of letters, digits and . _ -; write one like /shared',
    ),
    "mount path of the system": (
        {"storage": {"efs": {"mountPath": "/usr/shared"}}},
        [],
        'storage.efs.mountPath: "/usr/shared" is a system folder; write one like /shared',
    ),
    "mount path with a space": (
        {"storage": {"efs": {"mountPath": "/my data"}}},
        [],
        'storage.efs.mountPath: "/my data" is not an absolute path of letters, digits and . _ -; write one like /shared',
    ),
    "mount path over sockets": (
        {"storage": {"efs": {"mountPath": "/run/shared"}}},
        [],
        'storage.efs.mountPath: "/run/shared" is a system folder; write one like /shared',
    ),
    "mount path that is all": (
        {"storage": {"efs": {"mountPath": "/"}}},
        [],
        'storage.efs.mountPath: "/" is a system folder; write one like /shared',
    ),
    "backup of an existing file system": (
        {"network": existing_network(), "storage": {"efs": {"fileSystemId": FILE_SYSTEM, "backup": True}}},
        [],
        "storage.efs.backup: is for a new file system, but fileSystemId names an existing one; remove one of them",
    ),
    "existing file system in a new VPC": (
        {"storage": {"efs": {"fileSystemId": FILE_SYSTEM}}},
        [],
        "storage.efs.fileSystemId: names an existing file system, which is mounted in its own VPC; name that in network.vpcId",
    ),
    "file system that is no id": (
        {"network": existing_network(), "storage": {"efs": {"fileSystemId": "data"}}},
        [],
        'storage.efs.fileSystemId: "data" is not the id of an EFS file system; it looks like fs-0123456789abcdef0',
    ),
    # sizes
    "below zero": ({}, [pool(minSize=-1)], "pools[0].minSize: -1 is below 0; write 0 or more"),
    "no node at all": (
        {},
        [pool(maxSize=0)],
        "pools[0].maxSize: 0 allows no node; write at least 1 (minSize 0 scales to zero)",
    ),
    "min above max": (
        {},
        [pool(minSize=3)],
        "pools[0].minSize: 3 is above maxSize, which is 2; lower it or raise maxSize",
    ),
    "desired above max": (
        {},
        [pool(minSize=1, desiredSize=9)],
        "pools[0].desiredSize: 9 is outside of minSize and maxSize; write 1 to 2, or change minSize or maxSize",
    ),
    "desired below min": (
        {},
        [pool(minSize=2, desiredSize=1)],
        "pools[0].desiredSize: 1 is outside of minSize and maxSize; write 2, or change minSize or maxSize",
    ),
    "root volume": ({}, [pool(rootVolumeGib=8)], "pools[0].rootVolumeGib: 8 is out of range; write 30 to 16384"),
    # pools
    "AMI that is no id": (
        {},
        [pool(amiId="latest")],
        'pools[0].amiId: "latest" is not the id of an AMI; it looks like ami-0123456789abcdef0',
    ),
    "zone that the network lacks": (
        {"network": {"zones": ["us-west-2a", "us-west-2b"]}},
        [pool(zone="us-west-2c")],
        'pools[0].zone: "us-west-2c" is not among network.zones; add it there, or choose us-west-2a or us-west-2b',
    ),
    "label of Kubernetes": (
        {},
        [pool(labels={"node.kubernetes.io/role": "gpu"})],
        "pools[0].labels.node.kubernetes.io/role: has a prefix that Kubernetes and EKS keep for themselves; choose another key",
    ),
    "label of ours": (
        {},
        [pool(labels={"gpumpi.io/pool": "x"})],
        "pools[0].labels.gpumpi.io/pool: is set by this program; choose another key",
    ),
    "label key": (
        {},
        [pool(labels={"my team": "x"})],
        "pools[0].labels.my team: is not a valid label key; write one like team or example.com/team",
    ),
    "label value": (
        {},
        [pool(labels={"team": "a b"})],
        'pools[0].labels.team: "a b" is not a valid label value; use at most 63 letters, digits and inner - _ .',
    ),
    # capacity
    "no reservation": (
        {},
        [pool(capacity={"kind": "targeted-odcr"})],
        "pools[0].capacity: names no reservation; add reservationId or resourceGroupArn",
    ),
    "reservation and group": (
        {},
        [pool(capacity={"kind": "targeted-odcr", "reservationId": RESERVATION, "resourceGroupArn": GROUP})],
        "pools[0].capacity: names a reservation and a resource group; remove one of them",
    ),
    "group that is no ARN": (
        {},
        [pool(capacity={"kind": "targeted-odcr", "resourceGroupArn": "gpus"})],
        'pools[0].capacity.resourceGroupArn: "gpus" is not the ARN of a resource group; '
        "write one like arn:aws:resource-groups:us-west-2:123456789012:group/gpus",
    ),
    "reservation that is no id": (
        {},
        [pool(capacity={"kind": "capacity-block", "reservationId": "mine"})],
        'pools[0].capacity.reservationId: "mine" is not the id of a capacity reservation; it looks like cr-0123456789abcdef0',
    ),
    "placement group with a capacity block": (
        {},
        [pool(placementGroup="mine", capacity={"kind": "capacity-block", "reservationId": RESERVATION})],
        'pools[0].placementGroup: "mine" cannot hold the reserved instances; '
        "remove it, the reservation decides where the instances run",
    ),
    "placement group with a group of reservations": (
        {},
        [pool(placementGroup="mine", capacity={"kind": "targeted-odcr", "resourceGroupArn": GROUP})],
        'pools[0].placementGroup: "mine" cannot hold the reserved instances; '
        "remove it, the reservation decides where the instances run",
    ),
}
