"""Rules that need only the file: each row is one mistake and the whole sentence it gets."""

from typing import Any

import pytest

from infra import validation
from infra.naming import STACK_NAME_LIMIT
from tests.pure.world import FILE_SYSTEM, RESERVATION, existing_network, pool, settings, subnet_id

Case = tuple[dict[str, Any], list[dict[str, Any]], str]
"""Sections of the stack, its pools, the problem."""

GROUP = "arn:aws:resource-groups:us-west-2:123456789012:group/gpus"
LONG = "a-name-that-is-much-too-long"

CASES: dict[str, Case] = {
    # names
    "stack with capitals": (
        {"stack": "My_Stack"},
        [],
        'stack: "My_Stack" cannot name a cluster; name the file with lower-case letters, digits and inner hyphens',
    ),
    "stack too long": ({"stack": LONG}, [], f'stack: "{LONG}" has 28 characters; name the file with at most {STACK_NAME_LIMIT}'),
    "region": ({"region": "oregon"}, [], 'aws:region: "oregon" is not the name of a region; write one like us-west-2'),
    "pool not DNS": (
        {},
        [pool("Train_1")],
        'pools[0].name: "Train_1" is not a DNS label; use lower-case letters, digits and inner hyphens, a letter first',
    ),
    "pool that begins with a digit": (
        {},
        [pool("1st")],
        'pools[0].name: "1st" is not a DNS label; use lower-case letters, digits and inner hyphens, a letter first',
    ),
    "pool too long": ({}, [pool(LONG)], f'pools[0].name: "{LONG}" has 28 characters; use at most 20'),
    "pool twice": ({}, [pool("a"), pool("b"), pool("a")], 'pools[2].name: "a" is the name of pools[0] too; choose another'),
    "pool named system": ({}, [pool("system")], 'pools[0].name: "system" is the name of the CPU pool; choose another'),
    # cluster
    "version with a patch": (
        {"target": {"kubernetesVersion": "1.35.2"}},
        [],
        'target.kubernetesVersion: "1.35.2" is not a version of EKS; write major and minor, like "1.35"',
    ),
    "version that this program does not know": (
        {"target": {"kubernetesVersion": "1.21"}},
        [],
        'target.kubernetesVersion: "1.21" is not a version that this program was tested with; '
        "choose from 1.33, 1.34, 1.35 and 1.36",
    ),
    "unknown add-on": (
        {"target": {"addonVersions": {"cordns": "v1.13.2-eksbuild.31"}}},
        [],
        "target.addonVersions.cordns: is not an add-on of this program; did you mean coredns?",
    ),
    "retention": (
        {"target": {"logRetentionDays": 91}},
        [],
        "target.logRetentionDays: 91 is not a period of CloudWatch Logs; write 90 or 120",
    ),
    "no system node": (
        {"target": {"system": {"minSize": 0}}},
        [],
        "target.system.minSize: 0 leaves no node for the cluster's own pods; write at least 1",
    ),
    "system sizes": (
        {"target": {"system": {"desiredSize": 4}}},
        [],
        "target.system.desiredSize: 4 is outside of minSize and maxSize; write 1 to 3, or change minSize or maxSize",
    ),
    # access
    "public without CIDRs": (
        {"target": {"endpointAccess": {"public": True}}},
        [],
        "target.endpointAccess.publicCidrs: is missing, but public is true; name who may reach it, like [203.0.113.0/24]",
    ),
    "CIDRs without public": (
        {"target": {"endpointAccess": {"public": False, "publicCidrs": ["203.0.113.0/24"]}}},
        [],
        "target.endpointAccess.public: is false, but publicCidrs names somebody; remove one of them",
    ),
    "everybody": (
        {"target": {"endpointAccess": {"publicCidrs": ["0.0.0.0/0"]}}},
        [],
        'target.endpointAccess.publicCidrs[0]: "0.0.0.0/0" is everybody; name your own addresses, or set allowAnywhere: true',
    ),
    "no CIDR": (
        {"target": {"endpointAccess": {"publicCidrs": ["203.0.113.0/24", "office"]}}},
        [],
        'target.endpointAccess.publicCidrs[1]: "office" is not a range of IPv4 addresses; write one like 203.0.113.0/24',
    ),
    "bits of the host": (
        {"target": {"endpointAccess": {"publicCidrs": ["203.0.113.5/24"]}}},
        [],
        'target.endpointAccess.publicCidrs[0]: "203.0.113.5/24" is not the beginning of a /24; '
        "write 203.0.113.0/24 or 203.0.113.5/32",
    ),
    "private CIDR": (
        {"target": {"endpointAccess": {"publicCidrs": ["10.1.0.0/16"]}}},
        [],
        'target.endpointAccess.publicCidrs[0]: "10.1.0.0/16" is private; from there the private endpoint is reached, remove it',
    ),
    "CIDR twice": (
        {"target": {"endpointAccess": {"publicCidrs": ["203.0.113.0/24", "203.0.113.0/24"]}}},
        [],
        'target.endpointAccess.publicCidrs[1]: "203.0.113.0/24" is named twice; remove one',
    ),
    "more CIDRs than EKS takes": (
        {"target": {"endpointAccess": {"publicCidrs": [f"203.0.113.{number}/32" for number in range(41)]}}},
        [],
        "target.endpointAccess.publicCidrs: has 41 entries; EKS takes 40",
    ),
    "admin that is no ARN": (
        {"target": {"admins": ["ada"]}},
        [],
        'target.admins[0]: "ada" is not the ARN of an IAM user or role; write one like arn:aws:iam::123456789012:role/Admin',
    ),
    "admin that is root": (
        {"target": {"admins": ["arn:aws:iam::123456789012:root"]}},
        [],
        'target.admins[0]: "arn:aws:iam::123456789012:root" is not the ARN of an IAM user or role; '
        "write one like arn:aws:iam::123456789012:role/Admin",
    ),
    "admin that is a session": (
        {"target": {"admins": ["arn:aws:sts::123456789012:assumed-role/Ops/ada"]}},
        [],
        'target.admins[0]: "arn:aws:sts::123456789012:assumed-role/Ops/ada" is a session; '
        "write its role, like arn:aws:iam::123456789012:role/Ops",
    ),
    "admin twice": (
        {"target": {"admins": ["arn:aws:iam::123456789012:user/ada"] * 2}},
        [],
        'target.admins[1]: "arn:aws:iam::123456789012:user/ada" is named twice; remove one',
    ),
    # network
    "CIDR bad": (
        {"network": {"cidr": "10.0.0.0/33"}},
        [],
        'network.cidr: "10.0.0.0/33" is not a range of IPv4 addresses; write one like 10.0.0.0/16',
    ),
    "CIDR with bits of the host": (
        {"network": {"cidr": "10.1.2.0/16"}},
        [],
        'network.cidr: "10.1.2.0/16" is not the beginning of a /16; write 10.1.0.0/16 or 10.1.2.0/32',
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
        'network.zones[2]: "us-west-2a" is named twice; remove one',
    ),
    "no way out": (
        {"network": {"natGateways": "none"}},
        [],
        'network.natGateways: "none" leaves nodes without a way to AWS; add interfaceEndpoints: true',
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
        f'network.subnetIds[2]: "{subnet_id("a")}" is named twice; remove one',
    ),
    # storage
    "mount path that is relative": (
        {"storage": {"efs": {"mountPath": "shared"}}},
        [],
        'storage.efs.mountPath: "shared" is not an absolute, plain path; write one like /shared',
    ),
    "mount path that climbs": (
        {"storage": {"efs": {"mountPath": "/data/../etc"}}},
        [],
        'storage.efs.mountPath: "/data/../etc" is not an absolute, plain path; write one like /shared',
    ),
    "mount path of the system": (
        {"storage": {"efs": {"mountPath": "/usr/shared"}}},
        [],
        'storage.efs.mountPath: "/usr/shared" belongs to the system; write one like /shared',
    ),
    "mount path that is all": (
        {"storage": {"efs": {"mountPath": "/"}}},
        [],
        'storage.efs.mountPath: "/" belongs to the system; write one like /shared',
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
        "pools[0].labels.my team: is no key for a label; write one like team or example.com/team",
    ),
    "label value": (
        {},
        [pool(labels={"team": "a b"})],
        'pools[0].labels.team: "a b" is no value for a label; use at most 63 letters, digits and inner - _ .',
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
    # platform
    "no namespace": (
        {"platform": {"namespaces": []}},
        [],
        "platform.namespaces: is empty; name at least one, or remove the key",
    ),
    "namespace not DNS": (
        {"platform": {"namespaces": ["Team_A"]}},
        [],
        'platform.namespaces[0]: "Team_A" is not a DNS label; use lower-case letters, digits and inner hyphens',
    ),
    "namespace too long": (
        {"platform": {"namespaces": [LONG]}},
        [],
        f'platform.namespaces[0]: "{LONG}" has 28 characters; use at most 20',
    ),
    "namespace of the cluster": (
        {"platform": {"namespaces": ["jobs", "kube-system"]}},
        [],
        'platform.namespaces[1]: "kube-system" is not for jobs: the cluster\'s own pods run there; choose another',
    ),
    "namespace of the platform": (
        {"platform": {"namespaces": ["kueue-system"]}},
        [],
        'platform.namespaces[0]: "kueue-system" is not for jobs: the cluster\'s own pods run there; choose another',
    ),
    "namespace twice": (
        {"platform": {"namespaces": ["jobs", "jobs"]}},
        [],
        'platform.namespaces[1]: "jobs" is named twice; remove one',
    ),
    "no CPU at all": (
        {"platform": {"cpuRequestFactor": 0}},
        [],
        "platform.cpuRequestFactor: 0.0 is not above 0 and up to 1",
    ),
    "more CPU than there is": (
        {"platform": {"cpuRequestFactor": 1.5}},
        [],
        "platform.cpuRequestFactor: 1.5 is not above 0 and up to 1",
    ),
    "no minute": ({"platform": {"idleMinutes": 0}}, [], "platform.idleMinutes: 0 is not possible; write 1 to 1440"),
    "registry with a scheme": (
        {"platform": {"imageRegistry": "https://mirror.example.com"}},
        [],
        'platform.imageRegistry: "https://mirror.example.com" is not the beginning of an image\'s name; '
        "write host and path without a scheme, like mirror.example.com/all",
    ),
    "registry with a slash too many": (
        {"platform": {"imageRegistry": "mirror.example.com/all/"}},
        [],
        'platform.imageRegistry: "mirror.example.com/all/" is not the beginning of an image\'s name; '
        "write host and path without a scheme, like mirror.example.com/all",
    ),
    "relative mirror": (
        {"platform": {"manifestMirror": "mirror"}},
        [],
        'platform.manifestMirror: "mirror" depends on where `pulumi` runs; '
        "write an absolute path, or an address that begins with https://",
    ),
    # tags
    "tag of AWS": (
        {"tags": {"aws:owner": "ada"}},
        [],
        'tags.aws:owner: begins with "aws:", which AWS keeps for itself; choose another key',
    ),
    "tag of ours": ({"tags": {"managed-by": "ada"}}, [], "tags.managed-by: is set by this program; choose another key"),
    "cost tag": ({"tags": {"cost-center": "ml"}}, [], "tags.cost-center: is set from costCenter; write it there"),
    "tag of controllers": (
        {"tags": {"kubernetes.io/cluster/x": "owned"}},
        [],
        "tags.kubernetes.io/cluster/x: is a key that Kubernetes controllers act on; choose another",
    ),
    "tag key": (
        {"tags": {"what?": "x"}},
        [],
        "tags.what?: is no key for a tag; use 1 to 128 letters, digits, spaces and + - = . _ : / @",
    ),
    "tag value": (
        {"tags": {"note": "a|b"}},
        [],
        'tags.note: "a|b" is no value for a tag; use at most 256 letters, digits, spaces and + - = . _ : / @',
    ),
    "too many tags": ({"tags": {f"tag-{number}": "x" for number in range(21)}}, [], "tags: has 21 tags; write at most 20"),
    "no cost center": ({"costCenter": ""}, [], "costCenter: is empty; write a name, or remove the key"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_mistake_gets_one_sentence(case: str) -> None:
    sections, pools, expected = CASES[case]
    found = validation.check_offline(settings(*pools, **sections))
    assert [str(problem) for problem in found] == [expected]


@pytest.mark.parametrize(
    ("sections", "pools"),
    [
        ({}, []),
        ({"target": {"endpointAccess": {"publicCidrs": ["0.0.0.0/0"], "allowAnywhere": True}}}, []),
        ({"target": {"admins": ["arn:aws:iam::123456789012:role/aws-reserved/sso.amazonaws.com/AWSReservedSSO_Admin_01"]}}, []),
        ({"target": {"admins": ["arn:aws-cn:iam::123456789012:user/team/ada.l+1@example.com"]}}, []),
        ({"network": {"natGateways": "none", "interfaceEndpoints": True}}, []),
        ({"network": {"cidr": "100.64.0.0/20", "zones": 4}}, []),
        ({"network": existing_network(), "storage": {"efs": {"fileSystemId": FILE_SYSTEM}}}, []),
        ({"storage": {"efs": "none"}}, []),
        ({"stack": "01-single-g5"}, [pool("a" * 20, minSize=2, desiredSize=2)]),
        ({}, [pool(labels={"team": "", "example.com/team": "a.b-c_D"}, placementGroup="mine")]),
        ({}, [pool(capacity={"kind": "targeted-odcr", "reservationId": RESERVATION}, placementGroup="mine")]),
        ({"platform": {"namespaces": ["a", "b" * 20], "cpuRequestFactor": 1, "idleMinutes": 1440}}, []),
        ({"platform": {"imageRegistry": "mirror.example.com:5000/a/b-c", "manifestMirror": "~/mirror"}}, []),
        ({"tags": {"owner": "ada@example.com", "Größe": "groß"}, "costCenter": "ml research"}, []),
    ],
)
def test_what_is_allowed_gets_no_sentence(sections: dict[str, Any], pools: list[dict[str, Any]]) -> None:
    assert validation.check_offline(settings(*pools, **sections)) == []
