"""What facts show of the cluster: versions, quotas, what it cannot leave, who asks, its platform."""

from infra.facts import Caller, Existing
from infra.facts.manifests import Manifests
from infra.versions import addon_versions
from tests.pure.mistakes.case import A, B, C, FactsCase, addons, existing, live
from tests.pure.world import (
    ACCOUNT,
    ADMIN,
    VPC,
    existing_network,
    pool,
)

CASES: dict[str, FactsCase] = {
    # versions
    "version that EKS does not offer": (
        {"target": {"kubernetesVersion": "1.36"}},
        [],
        {"kubernetes_versions": ("1.32", "1.33", "1.34", "1.35"), "addon_versions": {}},
        ['target.kubernetesVersion: "1.36" is not offered by EKS in us-west-2; choose 1.33, 1.34 or 1.35'],
    ),
    "version that skips a minor": (
        {"target": {"kubernetesVersion": "1.35"}},
        [],
        existing("1.33"),
        [
            'target.kubernetesVersion: "1.35" skips a minor, since the cluster has 1.33; '
            'write "1.34", run `pulumi up`, and go on from there'
        ],
    ),
    "version that goes back": (
        {"target": {"kubernetesVersion": "1.35"}},
        [],
        existing("1.36"),
        ['target.kubernetesVersion: "1.35" is older than the version of the cluster, and EKS cannot downgrade; write "1.36"'],
    ),
    "add-on version that EKS does not offer": (
        {"target": {"addonVersions": {"coredns": "v1.0.0-eksbuild.1"}}},
        [],
        {},
        [
            f'target.addonVersions.coredns: "v1.0.0-eksbuild.1" is not offered for Kubernetes 1.35; '
            f"the newest is {addon_versions('1.35')['coredns']}"
        ],
    ),
    "tested add-on version that is gone": (
        {},
        [],
        {"addon_versions": addons(coredns="v1.99.10-eksbuild.2")},
        [
            f"target.addonVersions.coredns: is missing, and the tested {addon_versions('1.35')['coredns']} "
            "is no longer offered for Kubernetes 1.35; write the newest, v1.99.10-eksbuild.2"
        ],
    ),
    "add-on that EKS lacks": (
        {},
        [],
        {"addon_versions": {name: one for name, one in addons().items() if name != "metrics-server"}},
        [
            "target.addonVersions.metrics-server: EKS offers no metrics-server for Kubernetes 1.35 in us-west-2; "
            "choose another target.kubernetesVersion"
        ],
    ),
    # quotas
    "quota of a new account": (
        {},
        [pool(instance_type="p5.48xlarge", minSize=1, maxSize=4)],
        {"quotas": {"L-417A185B": 0.0, "L-1216C47A": 64.0}},
        [
            'pools[0].maxSize: 4 p5.48xlarge need 768 vCPUs, but the quota "Running On-Demand P instances" is 0; '
            "request an increase (`aws service-quotas request-service-quota-increase --service-code ec2 --quota-code L-417A185B "
            "--desired-value 768 --region us-west-2`) or lower maxSize"
        ],
    ),
    "quota of spot": (
        {},
        [pool(instance_type="g5.xlarge", minSize=3, maxSize=4, capacity={"kind": "spot"})],
        {"quotas": {"L-3819A6DF": 8.0, "L-DB2E81BA": 1000.0, "L-1216C47A": 64.0}},
        [
            'pools[0].maxSize: 4 g5.xlarge need 16 vCPUs, but the quota "All G and VT Spot Instance Requests" is 8; '
            "request an increase (`aws service-quotas request-service-quota-increase --service-code ec2 --quota-code L-3819A6DF "
            "--desired-value 16 --region us-west-2`) or lower maxSize"
        ],
    ),
    "quota of several pools": (
        {},
        [pool("a", instance_type="g5.xlarge", maxSize=4), pool("b", instance_type="g6.xlarge", maxSize=1)],
        {"quotas": {"L-DB2E81BA": 19.0, "L-1216C47A": 64.0}},
        [
            'warning: pools: 4 g5.xlarge and 1 g6.xlarge need 20 vCPUs, but the quota "Running On-Demand G and VT instances" '
            "is 19; "
            ""
            "request an increase (`aws service-quotas request-service-quota-increase --service-code ec2 --quota-code L-DB2E81BA "
            "--desired-value 20 --region us-west-2`) or lower maxSize"
        ],
    ),
    "quota of the system": (
        {},
        [],
        {"quotas": {"L-1216C47A": 5.0}},
        [
            "warning: target.system.maxSize: 3 m7i.large need 6 vCPUs, "
            'but the quota "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances" is 5; '
            "request an increase (`aws service-quotas request-service-quota-increase --service-code ec2 --quota-code L-1216C47A "
            "--desired-value 6 --region us-west-2`) or lower maxSize"
        ],
    ),
    "more pools than node groups": (
        {},
        [pool(f"p{number}", instance_type="g5.xlarge", maxSize=1) for number in range(30)],
        {},
        [
            'pools: 30 pools and the system pool are 31 node groups, but the quota "Managed node groups per cluster" is 30; '
            "request an increase (`aws service-quotas request-service-quota-increase --service-code eks --quota-code L-6D54EA21 "
            "--desired-value 31 --region us-west-2`), or use fewer pools"
        ],
    ),
    # admins
    "an admin that does not exist": (
        {"target": {"admins": [ADMIN]}},
        [],
        {"not_found": frozenset({ADMIN})},
        [f'target.admins[0]: "{ADMIN}" does not exist in account {ACCOUNT}; create the role, or remove it'],
    ),
    "an admin under another path": (
        {"target": {"admins": [ADMIN]}},
        [],
        {"admins": {ADMIN: f"arn:aws:iam::{ACCOUNT}:role/team/Admin"}},
        [f'target.admins[0]: "{ADMIN}" has another path in IAM; write arn:aws:iam::{ACCOUNT}:role/team/Admin'],
    ),
    "an admin of another partition": (
        {"target": {"admins": [f"arn:aws-cn:iam::{ACCOUNT}:role/Admin"]}},
        [],
        {},
        [
            f'target.admins[0]: "arn:aws-cn:iam::{ACCOUNT}:role/Admin" is in partition aws-cn, but us-west-2 is in aws; '
            "write an ARN that begins with arn:aws:"
        ],
    ),
    "an admin of another account": (
        {"target": {"admins": ["arn:aws:iam::999999999999:user/ada"]}},
        [],
        {},
        [
            'warning: target.admins[0]: "arn:aws:iam::999999999999:user/ada" is in account 999999999999, not in '
            f"{ACCOUNT}, so it was not checked; make sure that it exists, EKS refuses the ARN otherwise"
        ],
    ),
    # what a cluster cannot leave
    "other addresses": (
        {"network": {"cidr": "10.1.0.0/16"}},
        [],
        live(),
        [
            'network.cidr: is "10.1.0.0/16", but the cluster\'s VPC has 10.0.0.0/16, which cannot change; '
            'write "10.0.0.0/16", or create another stack'
        ],
    ),
    "its own VPC as an existing one": (
        {"network": existing_network()},
        [],
        live(),
        [
            f"network.vpcId: names a VPC, but the cluster is in {VPC}, which this stack made and manages; "
            "remove vpcId and subnetIds, or create another stack"
        ],
    ),
    "another existing VPC": (
        {"network": existing_network()},
        [],
        live("vpc-0fedcba9876543210", own=False),
        [
            "network.vpcId: is not vpc-0fedcba9876543210, which the cluster is in and cannot leave; "
            "name that one, or create another stack"
        ],
    ),
    "a new VPC for a cluster in an existing one": (
        {},
        [],
        live(own=False),
        [f"network.vpcId: is not {VPC}, which the cluster is in and cannot leave; name that one, or create another stack"],
    ),
    "a zone of the control plane left out": (
        {"network": {"zones": [A, C]}},
        [],
        live(),
        [
            f"network.zones: leaves out {B}, but the control plane is in {A} and {B}, which it cannot leave; "
            "add what is missing, or create another stack"
        ],
    ),
    "fewer zones than the control plane has": (
        {"network": {"zones": 2}},
        [],
        live(zones=(A, B, C)),
        [
            f"network.zones: asks for 2, but the control plane is in {A}, {B} and {C}, which it cannot leave; "
            "ask for 3, or create another stack"
        ],
    ),
    "no subnet in a zone of the control plane": (
        {"network": existing_network()},
        [],
        live(own=False, zones=(A, C)),
        [
            f"network.subnetIds: name no subnet in {C}, but the control plane is in {A} and {C}, which it cannot leave; "
            "name one, or create another stack"
        ],
    ),
    # caller
    "root": (
        {},
        [],
        {"caller": Caller(ACCOUNT, f"arn:aws:iam::{ACCOUNT}:root", None)},
        [f"caller: arn:aws:iam::{ACCOUNT}:root is the account's root user, which EKS gives no access; use an IAM user or role"],
    ),
    "role that cannot be looked up": (
        {},
        [],
        {"caller": Caller(ACCOUNT, f"arn:aws:sts::{ACCOUNT}:assumed-role/Ops/ada", None)},
        [
            f"caller: arn:aws:sts::{ACCOUNT}:assumed-role/Ops/ada is a session of a role that IAM would not describe; "
            "allow it iam:GetRole, or list its role in target.admins"
        ],
    ),
    # platform
    "platform behind an endpoint of a network that is yet to be made": (
        {"platform": {"install": True}},
        [],
        {},
        [
            "platform.install: is true, but without target.endpointAccess.publicCidrs the Kubernetes API is reached from inside "
            "the VPC only, which is yet to be made; write false, and true when `pulumi up` runs inside"
        ],
    ),
    "platform that would go with the public endpoint": (
        {"platform": {"install": None}},
        [],
        {"existing": Existing("1.35", has_public_endpoint=True)},
        [
            "platform.install: is missing: without the public endpoint its default is false, which removes the platform and all "
            "jobs; write true and run `pulumi up` from inside the network, or write false"
        ],
    ),
    "manifests of one upstream": (
        {},
        [],
        {"manifests": Manifests({}, {"kubeflow/mpi-operator/v0/a.yaml": "a cannot be read: No such file or directory"})},
        [
            "platform.manifestMirror: kubeflow/mpi-operator: a cannot be read: No such file or directory; "
            "name a folder or address that has it, here or in GPUMPI_MANIFEST_MIRROR"
        ],
    ),
    "manifests of several": (
        {},
        [],
        {"manifests": Manifests({}, {"a/b/v1/1": "no way to 1", "a/b/v1/2": "no way to 2", "c/d/v1/3": "no way to 3"})},
        [
            "platform.manifestMirror: a/b and c/d: no way to 1; "
            "name a folder or address that has it, here or in GPUMPI_MANIFEST_MIRROR"
        ],
    ),
}
