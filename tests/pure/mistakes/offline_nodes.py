"""Mistakes found without querying AWS: network, storage and pools."""

from tests.pure.mistakes.case import OfflineCase
from tests.pure.world import FILE_SYSTEM, RESERVATION, existing_network, pool, subnet_id

GROUP = "arn:aws:resource-groups:us-west-2:123456789012:group/gpus"

CASES: dict[str, OfflineCase] = {
    # network
    "CIDR bad": (
        {"network": {"cidr": "10.0.0.0/33"}},
        [],
        'network.cidr: "10.0.0.0/33" is not an IPv4 CIDR block. Use one such as 10.0.0.0/16.',
    ),
    "CIDR with host bits set": (
        {"network": {"cidr": "10.1.2.0/16"}},
        [],
        'network.cidr: "10.1.2.0/16" has host bits set. Use 10.1.0.0/16 or 10.1.2.0/32.',
    ),
    "CIDR with leading zeros in its prefix length": (
        {"network": {"cidr": "10.1.0.0/016"}},
        [],
        'network.cidr: "10.1.0.0/016" has a prefix length with leading zeros. Use 10.1.0.0/16.',
    ),
    "CIDR too small": ({"network": {"cidr": "10.0.0.0/24"}}, [], 'network.cidr: "10.0.0.0/24" is a /24. Use a /16 to /20.'),
    "CIDR too large": ({"network": {"cidr": "10.0.0.0/8"}}, [], 'network.cidr: "10.0.0.0/8" is a /8. Use a /16 to /20.'),
    "CIDR that is public": (
        {"network": {"cidr": "8.8.0.0/16"}},
        [],
        'network.cidr: "8.8.0.0/16" is not a private range. Choose from 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16 and '
        "100.64.0.0/10.",
    ),
    "CIDR of the services": (
        {"network": {"cidr": "172.20.0.0/16"}},
        [],
        'network.cidr: "172.20.0.0/16" overlaps 172.20.0.0/16, the CIDR of Kubernetes services. Choose another.',
    ),
    "one zone": (
        {"network": {"zones": 1}},
        [],
        "network.zones: 1 is out of range: EKS needs at least 2, and this program supports at most 4",
    ),
    "five zones": (
        {"network": {"zones": 5}},
        [],
        "network.zones: 5 is out of range: EKS needs at least 2, and this program supports at most 4",
    ),
    "one zone by name": (
        {"network": {"zones": ["us-west-2a"]}},
        [],
        "network.zones: 1 is out of range: EKS needs at least 2, and this program supports at most 4",
    ),
    "no zone by name": (
        {"network": {"zones": []}},
        [],
        "network.zones: 0 is out of range: EKS needs at least 2, and this program supports at most 4",
    ),
    "zone twice": (
        {"network": {"zones": ["us-west-2a", "us-west-2b", "us-west-2a"]}},
        [],
        'network.zones[2]: "us-west-2a" is listed twice. Remove one.',
    ),
    "no route to the internet": (
        {"network": {"natGateways": "none"}},
        [],
        'network.natGateways: "none" leaves nodes without a route to AWS. Add interfaceEndpoints: true.',
    ),
    "new and existing VPC": (
        {"network": {**existing_network(), "cidr": "10.0.0.0/16"}},
        [],
        "network.cidr: applies to a new VPC, but vpcId names an existing one. Remove one of them.",
    ),
    "NAT gateways for an existing VPC": (
        {"network": {**existing_network(), "natGateways": "one"}},
        [],
        "network.natGateways: applies to a new VPC, but vpcId names an existing one. Remove one of them.",
    ),
    "VPC without subnets": (
        {"network": {"vpcId": "vpc-0123456789abcdef0"}},
        [],
        "network.subnetIds: required with vpcId. List private subnets of the VPC in at least two zones.",
    ),
    "subnets without VPC": (
        {"network": {"subnetIds": [subnet_id("a"), subnet_id("b")]}},
        [],
        "network.vpcId: required with subnetIds. Set the VPC of the subnets.",
    ),
    "vpcId that is not a VPC ID": (
        {"network": {"vpcId": "main", "subnetIds": [subnet_id("a"), subnet_id("b")]}},
        [],
        'network.vpcId: "main" is not the ID of a VPC. Use one such as vpc-0123456789abcdef0.',
    ),
    "subnet twice": (
        {"network": existing_network(subnet_id("a"), subnet_id("b"), subnet_id("a"))},
        [],
        f'network.subnetIds[2]: "{subnet_id("a")}" is listed twice. Remove one.',
    ),
    # storage
    "Lustre with a kernel that has no client": (
        {"target": {"kubernetesVersion": "1.36"}, "storage": {"fsx": {}}},
        [pool(amiId="ami-0123456789abcdef0")],
        "storage.fsx: EKS's AMI for Kubernetes 1.36 has kernel 6.18, which has no Lustre client. Set "
        'target.kubernetesVersion: "1.35", or use only storage.efs.',
    ),
    "mount path that is not absolute": (
        {"storage": {"efs": {"mountPath": "shared"}}},
        [],
        'storage.efs.mountPath: "shared" is not an absolute path made of letters, digits and . _ -. Use a path such as /shared.',
    ),
    "mount path that climbs": (
        {"storage": {"efs": {"mountPath": "/data/../etc"}}},
        [],
        'storage.efs.mountPath: "/data/../etc" is not an absolute path made of letters, digits and . _ -. Use a path '
        "such as /shared.",
    ),
    "mount path in a system folder": (
        {"storage": {"efs": {"mountPath": "/usr/shared"}}},
        [],
        'storage.efs.mountPath: "/usr/shared" is a system directory. Use a path such as /shared.',
    ),
    "mount path with a space": (
        {"storage": {"efs": {"mountPath": "/my data"}}},
        [],
        'storage.efs.mountPath: "/my data" is not an absolute path made of letters, digits and . _ -. Use a path such '
        "as /shared.",
    ),
    "mount path over sockets": (
        {"storage": {"efs": {"mountPath": "/run/shared"}}},
        [],
        'storage.efs.mountPath: "/run/shared" is a system directory. Use a path such as /shared.',
    ),
    "mount path that is the root folder": (
        {"storage": {"efs": {"mountPath": "/"}}},
        [],
        'storage.efs.mountPath: "/" is a system directory. Use a path such as /shared.',
    ),
    "existing file system in a new VPC": (
        {"storage": {"efs": {"fileSystemId": FILE_SYSTEM}}},
        [],
        "storage.efs.fileSystemId: the existing file system is in its own VPC. Set network.vpcId to that VPC.",
    ),
    "fileSystemId that is not a file system ID": (
        {"network": existing_network(), "storage": {"efs": {"fileSystemId": "data"}}},
        [],
        'storage.efs.fileSystemId: "data" is not the ID of an EFS file system. Use one such as fs-0123456789abcdef0.',
    ),
    # FSx for Lustre
    "Lustre size between two allowed sizes": (
        {"storage": {"fsx": {"sizeGib": 3600}}},
        [],
        "storage.fsx.sizeGib: must be 1200 or a multiple of 2400 (got 3600). Set 4800.",
    ),
    "Lustre size below the minimum": (
        {"storage": {"fsx": {"sizeGib": 100}}},
        [],
        "storage.fsx.sizeGib: must be 1200 or a multiple of 2400 (got 100). Set 1200.",
    ),
    "throughput of SCRATCH_2": (
        {"storage": {"fsx": {"deployment": "SCRATCH_2", "throughputPerTib": 250}}},
        [],
        "storage.fsx.throughputPerTib: applies to PERSISTENT_2; SCRATCH_2 always has 200 MB/s per TiB. Remove it.",
    ),
    "key of SCRATCH_2": (
        {"storage": {"fsx": {"deployment": "SCRATCH_2", "kmsKeyArn": f"arn:aws:kms:us-west-2:{'1' * 12}:key/1"}}},
        [],
        "storage.fsx.kmsKeyArn: applies to PERSISTENT_2; AWS owns the keys of SCRATCH_2. Remove it.",
    ),
    "alias instead of a key ARN": (
        {"storage": {"fsx": {"kmsKeyArn": "alias/data"}}},
        [],
        'storage.fsx.kmsKeyArn: "alias/data" is not the ARN of a KMS key. Use one such as '
        "arn:aws:kms:us-west-2:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab.",
    ),
    "key of another Region": (
        {"storage": {"fsx": {"kmsKeyArn": f"arn:aws:kms:eu-west-1:{'1' * 12}:key/1"}}},
        [],
        "storage.fsx.kmsKeyArn: the key is in eu-west-1, but the file system is in us-west-2. Use a key in that Region.",
    ),
    "Lustre mounted below the shared file system": (
        {"storage": {"fsx": {"mountPath": "/shared/fsx"}}},
        [],
        'storage.fsx.mountPath: "/shared/fsx" and storage.efs.mountPath "/shared" overlap. Change one.',
    ),
    "existing Lustre file system in a new VPC": (
        {"storage": {"fsx": {"fileSystemId": FILE_SYSTEM}}},
        [],
        "storage.fsx.fileSystemId: the existing file system is in its own VPC. Set network.vpcId to that VPC.",
    ),
    "Lustre ID that is not an ID": (
        {"network": existing_network(), "storage": {"fsx": {"fileSystemId": "scratch"}}},
        [],
        'storage.fsx.fileSystemId: "scratch" is not the ID of an FSx for Lustre file system. Use one such as '
        "fs-0123456789abcdef0.",
    ),
    "data repository outside S3": (
        {"storage": {"fsx": {"dataRepository": {"path": "/data"}}}},
        [],
        'storage.fsx.dataRepository.path: "/data" is not a bucket with an optional prefix. Use s3://bucket/prefix.',
    ),
    "directory that is not absolute": (
        {"storage": {"fsx": {"dataRepository": {"path": "s3://sets", "directory": "data"}}}},
        [],
        'storage.fsx.dataRepository.directory: "data" is not an absolute path. Use one such as /data.',
    ),
    "event named twice": (
        {"storage": {"fsx": {"dataRepository": {"path": "s3://sets", "autoExport": ["NEW", "NEW"]}}}},
        [],
        "storage.fsx.dataRepository.autoExport: lists NEW twice. Remove one.",
    ),
    # sizes
    "below zero": ({}, [pool(minSize=-1)], "pools[0].minSize: -1 is below 0. Use 0 or more."),
    "no node at all": (
        {},
        [pool(maxSize=0)],
        "pools[0].maxSize: 0 allows no nodes. Use at least 1 (minSize 0 scales to zero).",
    ),
    "min above max": (
        {},
        [pool(minSize=3)],
        "pools[0].minSize: 3 is above maxSize, which is 2. Lower it, or raise maxSize.",
    ),
    "desired above max": (
        {},
        [pool(minSize=1, desiredSize=9)],
        "pools[0].desiredSize: 9 is not between minSize and maxSize. Use 1 to 2, or change minSize or maxSize.",
    ),
    "desired below min": (
        {},
        [pool(minSize=2, desiredSize=1)],
        "pools[0].desiredSize: 1 is not between minSize and maxSize. Use 2, or change minSize or maxSize.",
    ),
    "root volume": ({}, [pool(rootVolumeGib=8)], "pools[0].rootVolumeGib: 8 is out of range. Use 30 to 16384."),
    # pools
    "amiId that is not an AMI ID": (
        {},
        [pool(amiId="latest")],
        'pools[0].amiId: "latest" is not the ID of an AMI. Use one such as ami-0123456789abcdef0.',
    ),
    "pool zone outside the zones of the network": (
        {"network": {"zones": ["us-west-2a", "us-west-2b"]}},
        [pool(zone="us-west-2c")],
        'pools[0].zone: "us-west-2c" is not in network.zones. Add it there, or choose us-west-2a or us-west-2b.',
    ),
    "label of Kubernetes": (
        {},
        [pool(labels={"node.kubernetes.io/role": "gpu"})],
        "pools[0].labels.node.kubernetes.io/role: has a prefix reserved for Kubernetes and EKS. Choose another key.",
    ),
    "label of ours": (
        {},
        [pool(labels={"gpumpi.io/pool": "x"})],
        "pools[0].labels.gpumpi.io/pool: is set by this program. Choose another key.",
    ),
    "label of emulated nodes": (
        {},
        [pool(labels={"gpumpi.io/emulated-devices": "true"})],
        "pools[0].labels.gpumpi.io/emulated-devices: marks nodes with emulated devices, which `smoke` would not check. "
        "Remove the label.",
    ),
    "label key": (
        {},
        [pool(labels={"my team": "x"})],
        "pools[0].labels.my team: is not a valid label key. Use one such as team or example.com/team.",
    ),
    "label value": (
        {},
        [pool(labels={"team": "a b"})],
        'pools[0].labels.team: "a b" is not a valid label value. Use at most 63 letters, digits and inner - _ .',
    ),
    # capacity
    "no reservation": (
        {},
        [pool(capacity={"kind": "targeted-odcr"})],
        "pools[0].capacity: names no reservation. Add reservationId or resourceGroupArn.",
    ),
    "reservation and group": (
        {},
        [pool(capacity={"kind": "targeted-odcr", "reservationId": RESERVATION, "resourceGroupArn": GROUP})],
        "pools[0].capacity: names both a reservation and a resource group. Remove one of them.",
    ),
    "resourceGroupArn that is not an ARN": (
        {},
        [pool(capacity={"kind": "targeted-odcr", "resourceGroupArn": "gpus"})],
        'pools[0].capacity.resourceGroupArn: "gpus" is not the ARN of a resource group. Use one such as '
        "arn:aws:resource-groups:us-west-2:123456789012:group/gpus.",
    ),
    "reservationId that is not a reservation ID": (
        {},
        [pool(capacity={"kind": "capacity-block", "reservationId": "mine"})],
        'pools[0].capacity.reservationId: "mine" is not the ID of a capacity reservation. Use one such as cr-0123456789abcdef0.',
    ),
    "placement group with a capacity block": (
        {},
        [pool(placementGroup="mine", capacity={"kind": "capacity-block", "reservationId": RESERVATION})],
        'pools[0].placementGroup: "mine" cannot hold the reserved instances. Remove it: the reservation determines '
        "where the instances run.",
    ),
    "placement group with a resource group of reservations": (
        {},
        [pool(placementGroup="mine", capacity={"kind": "targeted-odcr", "resourceGroupArn": GROUP})],
        'pools[0].placementGroup: "mine" cannot hold the reserved instances. Remove it: the reservation determines '
        "where the instances run.",
    ),
}
