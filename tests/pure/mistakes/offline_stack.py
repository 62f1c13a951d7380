"""Without facts: names, control plane, access, platform, tags."""

from infra.naming import STACK_NAME_LIMIT
from tests.pure.mistakes.case import OfflineCase
from tests.pure.world import pool

LONG = "a-name-that-is-much-too-long"

CASES: dict[str, OfflineCase] = {
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
        "target.endpointAccess.publicCidrs: is missing, but public is true; list the addresses to allow, like [203.0.113.0/24]",
    ),
    "CIDRs without public": (
        {"target": {"endpointAccess": {"public": False, "publicCidrs": ["5.10.20.0/24"]}}},
        [],
        "target.endpointAccess.public: is false, but publicCidrs lists addresses; remove one of them",
    ),
    "everybody": (
        {"target": {"endpointAccess": {"publicCidrs": ["0.0.0.0/0"]}}},
        [],
        'target.endpointAccess.publicCidrs[0]: "0.0.0.0/0" is the whole internet; '
        "list your own addresses, or set allowAnywhere: true",
    ),
    "no CIDR": (
        {"target": {"endpointAccess": {"publicCidrs": ["5.10.20.0/24", "office"]}}},
        [],
        'target.endpointAccess.publicCidrs[1]: "office" is not an IPv4 CIDR block; write one like 203.0.113.0/24',
    ),
    "a single address": (
        {"target": {"endpointAccess": {"publicCidrs": ["5.10.20.30"]}}},
        [],
        'target.endpointAccess.publicCidrs[0]: "5.10.20.30" is a single address, not a CIDR block; write 5.10.20.30/32',
    ),
    "the whole internet in two halves": (
        {"target": {"endpointAccess": {"publicCidrs": ["0.0.0.0/1", "128.0.0.0/1"]}}},
        [],
        "target.endpointAccess.publicCidrs: together cover the whole internet; "
        "list your own addresses, or set allowAnywhere: true",
    ),
    "an example address left in": (
        {"target": {"endpointAccess": {"publicCidrs": ["203.0.113.7/32"]}}},
        [],
        'warning: target.endpointAccess.publicCidrs[0]: "203.0.113.7/32" is an example address that nobody has (RFC 5737); '
        "write your own, https://checkip.amazonaws.com shows it",
    ),
    "a platform that nobody asked for and nobody gets": (
        {"platform": {"install": None}},
        [],
        "warning: platform.install: is missing: the Kubernetes API has no public endpoint, so `pulumi up` does not install the "
        "platform and jobs cannot run; list your address in target.endpointAccess.publicCidrs, write true and run `pulumi up` "
        "inside the network, or write false",
    ),
    "bits of the host": (
        {"target": {"endpointAccess": {"publicCidrs": ["203.0.113.5/24"]}}},
        [],
        'target.endpointAccess.publicCidrs[0]: "203.0.113.5/24" has host bits set; write 203.0.113.0/24 or 203.0.113.5/32',
    ),
    "private CIDR": (
        {"target": {"endpointAccess": {"publicCidrs": ["10.1.0.0/16"]}}},
        [],
        'target.endpointAccess.publicCidrs[0]: "10.1.0.0/16" is a private range, which reaches the private endpoint; remove it',
    ),
    "CIDR twice": (
        {"target": {"endpointAccess": {"publicCidrs": ["5.10.20.0/24", "5.10.20.0/24"]}}},
        [],
        'target.endpointAccess.publicCidrs[1]: "5.10.20.0/24" is listed twice; remove one',
    ),
    "more CIDRs than EKS takes": (
        {"target": {"endpointAccess": {"publicCidrs": [f"5.10.20.{number}/32" for number in range(41)]}}},
        [],
        "target.endpointAccess.publicCidrs: has 41 entries; EKS accepts at most 40",
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
        'target.admins[0]: "arn:aws:sts::123456789012:assumed-role/Ops/ada" is a session of a role; '
        "write the role, like arn:aws:iam::123456789012:role/Ops",
    ),
    "admin twice": (
        {"target": {"admins": ["arn:aws:iam::123456789012:user/ada"] * 2}},
        [],
        'target.admins[1]: "arn:aws:iam::123456789012:user/ada" is listed twice; remove one',
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
        'platform.namespaces[1]: "jobs" is listed twice; remove one',
    ),
    "no CPU at all": (
        {"platform": {"cpuRequestFactor": 0}},
        [],
        "platform.cpuRequestFactor: must be greater than 0 and at most 1 (got 0.0)",
    ),
    "more CPU than there is": (
        {"platform": {"cpuRequestFactor": 1.5}},
        [],
        "platform.cpuRequestFactor: must be greater than 0 and at most 1 (got 1.5)",
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
        "tags.what?: is not a valid tag key; use 1 to 128 letters, digits, spaces and + - = . _ : / @",
    ),
    "tag value": (
        {"tags": {"note": "a|b"}},
        [],
        'tags.note: "a|b" is not a valid tag value; use at most 256 letters, digits, spaces and + - = . _ : / @',
    ),
    "too many tags": ({"tags": {f"tag-{number}": "x" for number in range(21)}}, [], "tags: has 21 tags; write at most 20"),
    "no cost center": ({"costCenter": ""}, [], "costCenter: is empty; write a name, or remove the key"),
}
