"""Mistakes found without querying AWS: names, control plane, platform and tags."""

from infra.naming import STACK_NAME_LIMIT
from tests.pure.mistakes.case import OfflineCase
from tests.pure.world import pool

LONG = "a-name-that-is-much-too-long"

CASES: dict[str, OfflineCase] = {
    # names
    "stack with capitals": (
        {"stack": "My_Stack"},
        [],
        'stack: "My_Stack" is not a valid cluster name. Name the stack file with lowercase letters, digits and inner hyphens.',
    ),
    "stack too long": (
        {"stack": LONG},
        [],
        f'stack: "{LONG}" has 28 characters. Name the stack file with at most {STACK_NAME_LIMIT}.',
    ),
    "region": ({"region": "oregon"}, [], 'aws:region: "oregon" is not a region name. Use one such as us-west-2.'),
    "pool not DNS": (
        {},
        [pool("Train_1")],
        'pools[0].name: "Train_1" is not a DNS label. Use lowercase letters, digits and inner hyphens, starting with a letter.',
    ),
    "pool name that begins with a digit": (
        {},
        [pool("1st")],
        'pools[0].name: "1st" is not a DNS label. Use lowercase letters, digits and inner hyphens, starting with a letter.',
    ),
    "pool too long": ({}, [pool(LONG)], f'pools[0].name: "{LONG}" has 28 characters. Use at most 20.'),
    "pool twice": ({}, [pool("a"), pool("b"), pool("a")], 'pools[2].name: "a" is already the name of pools[0]. Choose another.'),
    "pool named system": ({}, [pool("system")], 'pools[0].name: "system" is reserved for the CPU pool. Choose another name.'),
    # cluster
    "version with a patch": (
        {"target": {"kubernetesVersion": "1.35.2"}},
        [],
        'target.kubernetesVersion: "1.35.2" is not an EKS version. Use the major and minor version, such as "1.35".',
    ),
    "version that this program does not support": (
        {"target": {"kubernetesVersion": "1.21"}},
        [],
        'target.kubernetesVersion: "1.21" is not a version that this program was tested with. Choose from 1.35 and 1.36.',
    ),
    "unknown add-on": (
        {"target": {"addonVersions": {"cordns": "v1.13.2-eksbuild.31"}}},
        [],
        "target.addonVersions.cordns: is not an add-on that this program installs. Did you mean coredns?",
    ),
    "retention": (
        {"target": {"logRetentionDays": 91}},
        [],
        "target.logRetentionDays: 91 is not a valid CloudWatch Logs retention period. Use 90 or 120.",
    ),
    "no system node": (
        {"target": {"system": {"minSize": 0}}},
        [],
        "target.system.minSize: 0 leaves no node for the cluster's own pods. Use at least 1.",
    ),
    "system sizes": (
        {"target": {"system": {"desiredSize": 4}}},
        [],
        "target.system.desiredSize: 4 is not between minSize and maxSize. Use 1 to 3, or change minSize or maxSize.",
    ),
    # platform
    "no namespace": (
        {"platform": {"namespaces": []}},
        [],
        "platform.namespaces: is empty. List at least one namespace, or remove the key.",
    ),
    "namespace not DNS": (
        {"platform": {"namespaces": ["Team_A"]}},
        [],
        'platform.namespaces[0]: "Team_A" is not a DNS label. Use lowercase letters, digits and inner hyphens.',
    ),
    "namespace in the long form that is not a DNS label": (
        {"platform": {"namespaces": ["jobs", {"name": "Team_A", "podSecurity": "baseline"}]}},
        [],
        'platform.namespaces[1]: "Team_A" is not a DNS label. Use lowercase letters, digits and inner hyphens.',
    ),
    "namespace too long": (
        {"platform": {"namespaces": [LONG]}},
        [],
        f'platform.namespaces[0]: "{LONG}" has 28 characters. Use at most 20.',
    ),
    "namespace of the cluster": (
        {"platform": {"namespaces": ["jobs", "kube-system"]}},
        [],
        'platform.namespaces[1]: "kube-system" is reserved: the cluster\'s own pods run there. Choose another.',
    ),
    "namespace of the platform": (
        {"platform": {"namespaces": ["kueue-system"]}},
        [],
        'platform.namespaces[0]: "kueue-system" is reserved: the cluster\'s own pods run there. Choose another.',
    ),
    "namespace twice": (
        {"platform": {"namespaces": ["jobs", "jobs"]}},
        [],
        'platform.namespaces[1]: "jobs" is listed twice. Remove one.',
    ),
    "no CPU at all": (
        {"platform": {"cpuRequestFactor": 0}},
        [],
        "platform.cpuRequestFactor: must be greater than 0 and at most 1 (got 0.0)",
    ),
    "CPU request factor above 1": (
        {"platform": {"cpuRequestFactor": 1.5}},
        [],
        "platform.cpuRequestFactor: must be greater than 0 and at most 1 (got 1.5)",
    ),
    "no minute": ({"platform": {"idleMinutes": 0}}, [], "platform.idleMinutes: 0 is out of range. Use 1 to 1440."),
    "bucket as an address": (
        {"platform": {"jobPolicies": [{"bucket": "s3://datasets"}]}},
        [],
        'platform.jobPolicies[0].bucket: "s3://datasets" is not the name of a bucket. Use only the name, without s3:// '
        "or a path.",
    ),
    "path with a wildcard": (
        {"platform": {"jobPolicies": [{"bucket": "datasets", "path": "digits/*"}]}},
        [],
        'platform.jobPolicies[0].path: "digits/*" has a wildcard or variable. Use the path of a folder or object.',
    ),
    "bucket for an unknown namespace": (
        {"platform": {"jobPolicies": [{"bucket": "datasets", "namespace": "vision"}]}},
        [],
        'platform.jobPolicies[0].namespace: "vision" is not in platform.namespaces. Add it there.',
    ),
    "path of a bucket twice": (
        {"platform": {"jobPolicies": [{"bucket": "datasets", "path": "a"}, {"bucket": "datasets", "path": "/a/"}]}},
        [],
        "platform.jobPolicies[1]: repeats platform.jobPolicies[0]. Remove one.",
    ),
    "registry with a scheme": (
        {"platform": {"imageRegistry": "https://mirror.example.com"}},
        [],
        'platform.imageRegistry: "https://mirror.example.com" is not a valid prefix of image names. Use a host and path '
        "without a scheme, such as mirror.example.com/all.",
    ),
    "registry with a trailing slash": (
        {"platform": {"imageRegistry": "mirror.example.com/all/"}},
        [],
        'platform.imageRegistry: "mirror.example.com/all/" is not a valid prefix of image names. Use a host and path '
        "without a scheme, such as mirror.example.com/all.",
    ),
    "repository with a scheme": (
        {"platform": {"imageRepository": "https://registry.example.com/team"}},
        [],
        'platform.imageRepository: "https://registry.example.com/team" is not a repository. Use the registry\'s host and '
        "a path, without a scheme, such as registry.example.com/team.",
    ),
    "Docker Hub repository by its short name": (
        {"platform": {"imageRepository": "team/images"}},
        [],
        'platform.imageRepository: "team/images" is not a repository. Use the registry\'s host and a path, without a scheme, '
        "such as registry.example.com/team.",
    ),
    "two image repositories": (
        {"platform": {"imageRepositories": True, "imageRepository": "registry.example.com/team"}},
        [],
        'platform.imageRepositories: is true, but platform.imageRepository is "registry.example.com/team": short image names '
        "can refer to only one of them. Remove one.",
    ),
    "image repositories below a name that ECR rejects": (
        {"stack": "a--b", "platform": {"imageRepositories": True}},
        [],
        'platform.imageRepositories: ECR rejects the repository prefix "gpumpi-a--b". Name the stack file without double '
        "hyphens, or use platform.imageRepository.",
    ),
    "invalid Secret name": (
        {"platform": {"imagePullSecrets": ["login", "Login"]}},
        [],
        'platform.imagePullSecrets[1]: "Login" is not a valid Secret name. Use the name shown by `kubectl get secrets`, such as '
        "registry-login.",
    ),
    "relative mirror": (
        {"platform": {"manifestMirror": "mirror"}},
        [],
        'platform.manifestMirror: "mirror" depends on the working directory of `pulumi`. Use an absolute path or an '
        "https:// URL.",
    ),
    # monitoring
    "receiver without a scheme": (
        {"platform": {"monitoring": True, "remoteWrite": "metrics.example.com/push"}},
        [],
        'platform.remoteWrite: "metrics.example.com/push" is not an http or https URL. Use one such as '
        "https://metrics.example.com/api/v1/push.",
    ),
    "receiver without a host": (
        {"platform": {"monitoring": True, "remoteWrite": "https:///push"}},
        [],
        'platform.remoteWrite: "https:///push" is not an http or https URL. Use one such as '
        "https://metrics.example.com/api/v1/push.",
    ),
    "receiver with an impossible port": (
        {"platform": {"monitoring": True, "remoteWrite": "https://a.example.com:99999/push"}},
        [],
        'platform.remoteWrite: "https://a.example.com:99999/push" is not an http or https URL. Use one such as '
        "https://metrics.example.com/api/v1/push.",
    ),
    "receiver with a user": (
        {"platform": {"monitoring": True, "remoteWrite": "https://ada@metrics.example.com/push"}},
        [],
        "platform.remoteWrite: contains a user or password, which the stack file would show. Use platform.remoteWriteLogin.",
    ),
    "receiver without monitoring": (
        {"platform": {"remoteWrite": "https://metrics.example.com/push"}},
        [],
        "platform.remoteWrite: has no effect without platform.monitoring. Set platform.monitoring to true, or remove the key.",
    ),
    "login without a receiver": (
        {"platform": {"monitoring": True, "remoteWriteLogin": "metrics"}},
        [],
        "platform.remoteWriteLogin: has no effect without platform.remoteWrite. Set platform.remoteWrite, or remove the key.",
    ),
    "alerts to no Secret": (
        {"platform": {"monitoring": True, "alertReceiver": "https://chat.example.com/hook"}},
        [],
        'platform.alertReceiver: "https://chat.example.com/hook" is not a valid Secret name. Use the name shown by '
        "`kubectl get secrets`, such as metrics-receiver.",
    ),
    "alerts without monitoring": (
        {"platform": {"alertReceiver": "chat"}},
        [],
        "platform.alertReceiver: has no effect without platform.monitoring. Set platform.monitoring to true, or remove the key.",
    ),
    "jobs among the monitoring": (
        {"platform": {"namespaces": ["gpumpi-monitoring"]}},
        [],
        'platform.namespaces[0]: "gpumpi-monitoring" is reserved: the cluster\'s own pods run there. Choose another.',
    ),
    # tags
    "tag of AWS": (
        {"tags": {"aws:owner": "ada"}},
        [],
        'tags.aws:owner: begins with "aws:", which AWS reserves. Choose another key.',
    ),
    "tag of ours": ({"tags": {"managed-by": "ada"}}, [], "tags.managed-by: is set by this program. Choose another key."),
    "cost tag": ({"tags": {"cost-center": "ml"}}, [], "tags.cost-center: is set from costCenter. Set costCenter instead."),
    "tag of controllers": (
        {"tags": {"kubernetes.io/cluster/x": "owned"}},
        [],
        "tags.kubernetes.io/cluster/x: is a key that Kubernetes controllers act on. Choose another.",
    ),
    "tag key": (
        {"tags": {"what?": "x"}},
        [],
        "tags.what?: is not a valid tag key. Use 1 to 128 letters, digits, spaces and + - = . _ : / @",
    ),
    "tag value": (
        {"tags": {"note": "a|b"}},
        [],
        'tags.note: "a|b" is not a valid tag value. Use at most 256 letters, digits, spaces and + - = . _ : / @',
    ),
    "too many tags": ({"tags": {f"tag-{number}": "x" for number in range(21)}}, [], "tags: has 21 tags. Use at most 20."),
    "no cost center": ({"costCenter": ""}, [], "costCenter: is empty. Set a value, or remove the key."),
}
