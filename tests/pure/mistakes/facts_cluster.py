"""Cluster mistakes found with facts from AWS: versions, quotas, admins, immutable settings, caller and platform."""

from datetime import date

from infra.facts.manifests import Manifests
from infra.facts.model import Caller, Existing
from tests.pure.mistakes.case import A, B, C, FactsCase, make_existing_facts, make_live_cluster_facts, user_sections
from tests.pure.world import (
    ACCOUNT,
    ADDON_VERSIONS,
    ADMIN,
    VPC,
    existing_network,
    pool,
)

ENDS_SOON = (
    "warning: target.kubernetesVersion: EKS's standard support for 1.34 ends on 2026-12-02. After that date, AWS "
    "upgrades the control plane "
    'or bills extended support, depending on the cluster\'s upgrade policy. Set "1.35".'
)
ONLY_RUNNING = (
    'target.kubernetesVersion: "1.34" is only for running clusters: EKS\'s standard support for 1.34 ended on 2026-12-02. Set '
    "1.35 or 1.36."
)

SSO_ROLE = f"arn:aws:iam::{ACCOUNT}:role/aws-reserved/sso.amazonaws.com/eu-west-2/AWSReservedSSO_Researcher_0123456789abcdef"

CASES: dict[str, FactsCase] = {
    # versions
    "Kubernetes version that EKS does not offer": (
        {"target": {"kubernetesVersion": "1.36"}},
        [],
        {"kubernetes_versions": ("1.32", "1.33", "1.34", "1.35"), "addon_versions": {}},
        ['target.kubernetesVersion: EKS does not offer "1.36" in us-west-2. Choose 1.35.'],
    ),
    "new cluster with a version in extended support": (
        {"target": {"kubernetesVersion": "1.33"}},
        [],
        {"addon_versions": {}},
        [
            'target.kubernetesVersion: "1.33" is only for running clusters: EKS\'s standard support for 1.33 ended on '
            "2026-07-29. Set 1.35 or 1.36."
        ],
    ),
    "running cluster in extended support": (
        {"target": {"kubernetesVersion": "1.33"}},
        [],
        {"addon_versions": {}, **make_existing_facts("1.33")},
        [
            "warning: target.kubernetesVersion: EKS's standard support for 1.33 ended on 2026-07-29, and AWS bills the "
            'cluster for extended support. Set "1.34" to upgrade.'
        ],
    ),
    "upgrade that skips a minor version": (
        {"target": {"kubernetesVersion": "1.35"}},
        [],
        make_existing_facts("1.33"),
        [
            'target.kubernetesVersion: "1.35" skips a minor version: the cluster has 1.33. Set "1.34", run `pulumi '
            "up`, and continue from there."
        ],
    ),
    "version that goes back": (
        {"target": {"kubernetesVersion": "1.35"}},
        [],
        make_existing_facts("1.36"),
        [
            'target.kubernetesVersion: "1.35" is older than the version of the cluster. EKS rolls back only within 7 days of an '
            "upgrade, and `pulumi up` does not roll back, because node groups must be rolled back first. "
            'Use "1.36", or roll back with the AWS CLI (docs/guides/upgrade.md).'
        ],
    ),
    "version that goes back two minor versions": (
        {"target": {"kubernetesVersion": "1.34"}},
        [],
        {"addon_versions": {}, "today": date(2026, 5, 1), **make_existing_facts("1.36")},
        [
            'target.kubernetesVersion: "1.34" is older than the version of the cluster, and EKS rolls back at most one minor '
            'version. Use "1.36".'
        ],
    ),
    "new cluster whose standard support ends in days": (
        {"target": {"kubernetesVersion": "1.34"}},
        [],
        {"addon_versions": {}},
        [ENDS_SOON],
    ),
    "running cluster whose standard support ends in days": (
        {"target": {"kubernetesVersion": "1.34"}},
        [],
        {"addon_versions": {}, **make_existing_facts("1.34")},
        [ENDS_SOON],
    ),
    "upgrade to a version whose standard support ends in days": (
        {"target": {"kubernetesVersion": "1.34"}},
        [],
        {"addon_versions": {}, **make_existing_facts("1.33")},
        [ENDS_SOON],
    ),
    "version that EKS no longer offers and whose standard support ends in days": (
        {"target": {"kubernetesVersion": "1.34"}},
        [],
        {"kubernetes_versions": ("1.35", "1.36"), "addon_versions": {}, **make_existing_facts("1.34")},
        [ENDS_SOON],
    ),
    "next version, 60 days before its standard support ends": (
        {},
        [],
        {"today": date(2027, 1, 26)},
        [
            "warning: target.kubernetesVersion: EKS's standard support for 1.35 ends on 2027-03-27. After that date, AWS "
            "upgrades the control plane or bills extended support, depending on the "
            'cluster\'s upgrade policy. Set "1.36".'
        ],
    ),
    "running cluster on the day after its standard support": (
        {"target": {"kubernetesVersion": "1.34"}},
        [],
        {"addon_versions": {}, "today": date(2026, 12, 3), **make_existing_facts("1.34")},
        [
            "warning: target.kubernetesVersion: EKS's standard support for 1.34 ended on 2026-12-02, and AWS bills the "
            'cluster for extended support. Set "1.35" to upgrade.'
        ],
    ),
    "new cluster after standard support, as EKS reports it": (
        {"target": {"kubernetesVersion": "1.34"}},
        [],
        {"addon_versions": {}, "extended_support": frozenset({"1.33", "1.34"})},
        [ONLY_RUNNING],
    ),
    "new cluster after standard support, if EKS could not be queried": (
        {"target": {"kubernetesVersion": "1.34"}},
        [],
        {"addon_versions": {}, "kubernetes_versions": (), "extended_support": frozenset(), "today": date(2026, 12, 3)},
        [ONLY_RUNNING],
    ),
    "add-on version that EKS does not offer": (
        {"target": {"addonVersions": {"coredns": "v1.0.0-eksbuild.1"}}},
        [],
        {},
        [
            'target.addonVersions.coredns: "v1.0.0-eksbuild.1" is not offered for Kubernetes 1.35. '
            "Use AWS's default, v1.35.2-eksbuild.1."
        ],
    ),
    "add-on that EKS lacks": (
        {},
        [],
        {"addon_versions": {name: versions for name, versions in ADDON_VERSIONS.items() if name != "metrics-server"}},
        [
            "target.addonVersions.metrics-server: EKS offers no metrics-server for Kubernetes 1.35 in us-west-2. "
            "Choose another target.kubernetesVersion."
        ],
    ),
    # quotas
    "quota of zero in a new account": (
        {},
        [pool(instance_type="p5.48xlarge", minSize=1, maxSize=4)],
        {"quotas": {"L-417A185B": 0.0, "L-1216C47A": 64.0}},
        [
            'pools[0].maxSize: 4 p5.48xlarge need 768 vCPUs, but the quota "Running On-Demand P instances" is 0. '
            "Request an increase (`aws service-quotas request-service-quota-increase --service-code ec2 --quota-code "
            "L-417A185B --desired-value 768 --region us-west-2`) or lower maxSize."
        ],
    ),
    "quota that others use": (
        {},
        [pool(instance_type="p5.48xlarge", desiredSize=1, maxSize=1)],
        {"quotas": {"L-417A185B": 384.0, "L-1216C47A": 64.0}, "in_use": {"L-417A185B": 384}},
        [
            'pools[0].maxSize: 1 p5.48xlarge need 192 vCPUs, but the quota "Running On-Demand P instances" is 384, '
            "and 384 are in use by other instances or reserved. "
            "Request an increase (`aws service-quotas request-service-quota-increase --service-code ec2 --quota-code "
            "L-417A185B --desired-value 576 --region us-west-2`) or lower maxSize."
        ],
    ),
    "quota of spot": (
        {},
        [pool(instance_type="g5.xlarge", minSize=3, maxSize=4, capacity={"kind": "spot"})],
        {"quotas": {"L-3819A6DF": 8.0, "L-DB2E81BA": 1000.0, "L-1216C47A": 64.0}},
        [
            'pools[0].maxSize: 4 g5.xlarge need 16 vCPUs, but the quota "All G and VT Spot Instance Requests" is 8. '
            "Request an increase (`aws service-quotas request-service-quota-increase --service-code ec2 --quota-code "
            "L-3819A6DF --desired-value 16 --region us-west-2`) or lower maxSize."
        ],
    ),
    "quota of several pools": (
        {},
        [pool("a", instance_type="g5.xlarge", maxSize=4), pool("b", instance_type="g6.xlarge", maxSize=1)],
        {"quotas": {"L-DB2E81BA": 19.0, "L-1216C47A": 64.0}},
        [
            'warning: pools: 4 g5.xlarge and 1 g6.xlarge need 20 vCPUs, but the quota "Running On-Demand G and VT '
            'instances" is 19. Request an increase (`aws service-quotas request-service-quota-increase --service-code '
            "ec2 --quota-code L-DB2E81BA --desired-value 20 --region us-west-2`) or lower maxSize."
        ],
    ),
    "quota of the system": (
        {},
        [],
        {"quotas": {"L-1216C47A": 5.0}},
        [
            'warning: target.system.maxSize: 3 m7i.large need 6 vCPUs, but the quota "Running On-Demand Standard (A, '
            'C, D, H, I, M, R, T, Z) instances" is 5. Request an increase (`aws service-quotas '
            "request-service-quota-increase --service-code ec2 --quota-code L-1216C47A --desired-value 6 --region "
            "us-west-2`) or lower maxSize."
        ],
    ),
    "more pools than the node group quota allows": (
        {},
        [pool(f"p{number}", instance_type="g5.xlarge", maxSize=1) for number in range(30)],
        {},
        [
            'pools: 30 pools and the system pool need 31 node groups, but the quota "Managed node groups per cluster" '
            "is 30. Request an increase (`aws service-quotas request-service-quota-increase --service-code eks "
            "--quota-code L-6D54EA21 --desired-value 31 --region us-west-2`), or use fewer pools."
        ],
    ),
    # admins
    "admin that does not exist": (
        {"target": {"admins": [ADMIN]}},
        [],
        {"not_found": frozenset({ADMIN})},
        [f'target.admins[0]: "{ADMIN}" does not exist in account {ACCOUNT}. Create the role, or remove the ARN.'],
    ),
    "admin with another IAM path": (
        {"target": {"admins": [ADMIN]}},
        [],
        {"admins": {ADMIN: f"arn:aws:iam::{ACCOUNT}:role/team/Admin"}},
        [f'target.admins[0]: "{ADMIN}" has a different path in IAM. Use arn:aws:iam::{ACCOUNT}:role/team/Admin.'],
    ),
    "admin in another AWS partition": (
        {"target": {"admins": [f"arn:aws-cn:iam::{ACCOUNT}:role/Admin"]}},
        [],
        {},
        [
            f'target.admins[0]: "arn:aws-cn:iam::{ACCOUNT}:role/Admin" is in partition aws-cn, but us-west-2 is in aws. '
            "Use an ARN of that partition (arn:aws:...)."
        ],
    ),
    "admin in another AWS account": (
        {"target": {"admins": ["arn:aws:iam::999999999999:user/ada"]}},
        [],
        {},
        [
            f'warning: target.admins[0]: "arn:aws:iam::999999999999:user/ada" is in account 999999999999, not in {ACCOUNT}, '
            "so it was not checked. Make sure that it exists: otherwise EKS rejects it."
        ],
    ),
    # users
    "user that does not exist": (
        user_sections([{"principal": ADMIN}]),
        [],
        {"not_found": frozenset({ADMIN})},
        [f'target.users[0].principal: "{ADMIN}" does not exist in account {ACCOUNT}. Create the role, or remove the ARN.'],
    ),
    "user with another IAM path": (
        user_sections([{"principal": ADMIN}]),
        [],
        {"users": {ADMIN: f"arn:aws:iam::{ACCOUNT}:role/team/Admin"}},
        [f'target.users[0].principal: "{ADMIN}" has a different path in IAM. Use arn:aws:iam::{ACCOUNT}:role/team/Admin.'],
    ),
    "user that runs pulumi up": (
        user_sections([{"principal": ADMIN}]),
        [],
        {"caller": Caller(ACCOUNT, ADMIN, ADMIN)},
        [
            f'target.users[0].principal: "{ADMIN}" is the caller of `pulumi up`, who becomes a cluster admin. Run `pulumi up` as '
            "another user, or remove the user."
        ],
    ),
    "permission set without a role": (
        user_sections([{"permissionSet": "Researcher"}]),
        [],
        {"permission_sets": {"Researcher": ()}},
        [
            f'target.users[0].permissionSet: "Researcher" has no role in account {ACCOUNT}. Assign it to the account in IAM '
            "Identity Center, or correct the name."
        ],
    ),
    "permission set with two roles": (
        user_sections([{"permissionSet": "Researcher"}]),
        [],
        {"permission_sets": {"Researcher": (SSO_ROLE, f"{SSO_ROLE[:-1]}0")}},
        [
            f'target.users[0].permissionSet: "Researcher" has 2 roles: {SSO_ROLE} and {SSO_ROLE[:-1]}0. Use principal with the '
            "ARN of the current role."
        ],
    ),
    "permission set of an admin": (
        user_sections([{"permissionSet": "Researcher"}], admins=[SSO_ROLE]),
        [],
        {"permission_sets": {"Researcher": (SSO_ROLE,)}},
        [
            f'target.users[0].permissionSet: "Researcher" has the role {SSO_ROLE}, which is also in target.admins. Remove it '
            "from one of the two."
        ],
    ),
    "permission set and its role": (
        user_sections([{"principal": SSO_ROLE}, {"permissionSet": "Researcher", "access": "view"}]),
        [],
        {"permission_sets": {"Researcher": (SSO_ROLE,)}},
        [
            "target.users[1].permissionSet: repeats target.users[0].principal for namespace mpi-jobs. Remove one of the two.",
        ],
    ),
    # permissions boundary
    "permissions boundary in another AWS partition": (
        {"permissionsBoundary": f"arn:aws-cn:iam::{ACCOUNT}:policy/limits"},
        [],
        {},
        [
            f'permissionsBoundary: "arn:aws-cn:iam::{ACCOUNT}:policy/limits" is in partition aws-cn, but us-west-2 is in aws. '
            "Use an ARN of that partition (arn:aws:...)."
        ],
    ),
    "permissions boundary in another AWS account": (
        {"permissionsBoundary": "arn:aws:iam::999999999999:policy/limits"},
        [],
        {},
        [
            f'permissionsBoundary: "arn:aws:iam::999999999999:policy/limits" is in account 999999999999, not in {ACCOUNT}. '
            "Create the policy in the stack's account, and use its ARN."
        ],
    ),
    "permissions boundary of AWS": ({"permissionsBoundary": "arn:aws:iam::aws:policy/PowerUserAccess"}, [], {}, []),
    # settings that cannot be changed on a running cluster
    "other addresses": (
        {"network": {"cidr": "10.1.0.0/16"}},
        [],
        make_live_cluster_facts(),
        [
            'network.cidr: is "10.1.0.0/16", but the cluster\'s VPC has 10.0.0.0/16, which cannot change. Use '
            '"10.0.0.0/16", or create another stack.'
        ],
    ),
    "vpcId that names the stack's own VPC": (
        {"network": existing_network()},
        [],
        make_live_cluster_facts(),
        [
            f"network.vpcId: names a VPC, but the cluster is in {VPC}, which this stack created and manages. Remove "
            "vpcId and subnetIds, or create another stack."
        ],
    ),
    "another existing VPC": (
        {"network": existing_network()},
        [],
        make_live_cluster_facts("vpc-0fedcba9876543210", own=False),
        [
            "network.vpcId: must be vpc-0fedcba9876543210, because the cluster cannot leave that VPC. Set it, or "
            "create another stack."
        ],
    ),
    "new VPC for a cluster in an existing VPC": (
        {},
        [],
        make_live_cluster_facts(own=False),
        [f"network.vpcId: must be {VPC}, because the cluster cannot leave that VPC. Set it, or create another stack."],
    ),
    "zone list that omits a zone of the control plane": (
        {"network": {"zones": [A, C]}},
        [],
        make_live_cluster_facts(),
        [
            f"network.zones: omits {B}, but the control plane is in {A} and {B}, which it cannot leave. Add the missing "
            "zones, or create another stack."
        ],
    ),
    "fewer zones than the control plane uses": (
        {"network": {"zones": 2}},
        [],
        make_live_cluster_facts(zones=(A, B, C)),
        [
            f"network.zones: is 2, but the control plane is in {A}, {B} and {C}, which it cannot leave. Set 3, or "
            "create another stack."
        ],
    ),
    "no subnet in a zone of the control plane": (
        {"network": existing_network()},
        [],
        make_live_cluster_facts(own=False, zones=(A, C)),
        [
            f"network.subnetIds: contain no subnet in {C}, but the control plane is in {A} and {C}, which it cannot "
            "leave. Add one, or create another stack."
        ],
    ),
    # caller
    "root": (
        {},
        [],
        {"caller": Caller(ACCOUNT, f"arn:aws:iam::{ACCOUNT}:root", None)},
        [f"caller: arn:aws:iam::{ACCOUNT}:root is the account's root user, which EKS does not accept. Use an IAM user or role."],
    ),
    "caller with a role that could not be read from IAM": (
        {},
        [],
        {"caller": Caller(ACCOUNT, f"arn:aws:sts::{ACCOUNT}:assumed-role/Ops/ada", None)},
        [
            f"caller: arn:aws:sts::{ACCOUNT}:assumed-role/Ops/ada is a role session, and its role could not be read "
            "from IAM. Allow iam:GetRole, or list the role in target.admins."
        ],
    ),
    # platform
    "platform behind a private endpoint in a VPC that does not exist yet": (
        {"platform": {"install": True}},
        [],
        {},
        [
            "platform.install: is true, but without target.endpointAccess.publicCidrs the Kubernetes API is reachable "
            "only over the VPC, which does not exist yet. Set false now, and true when `pulumi up` runs in a network that is "
            "connected to the VPC."
        ],
    ),
    "removed public endpoint, without which the platform is removed by default": (
        {"platform": {"install": None}},
        [],
        {"existing": Existing("1.35", has_public_endpoint=True)},
        [
            "platform.install: is not set: without the public endpoint it defaults to false, which removes the "
            "platform and all jobs. Set true and run `pulumi up` in a network of privateCidrs, or set false."
        ],
    ),
    "manifests of one upstream": (
        {"target": {"endpointAccess": {"publicCidrs": ["5.10.20.0/24"]}}, "platform": {"install": True}},
        [],
        {"manifests": Manifests({}, {"kubeflow/mpi-operator/v0/a.yaml": "a cannot be read: No such file or directory"})},
        [
            "platform.manifestMirror: kubeflow/mpi-operator: a cannot be read: No such file or directory. Set "
            "platform.manifestMirror or GPUMPI_MANIFEST_MIRROR to a directory or URL that contains the manifests."
        ],
    ),
    "manifests of several": (
        {"target": {"endpointAccess": {"publicCidrs": ["5.10.20.0/24"]}}, "platform": {"install": True}},
        [],
        {"manifests": Manifests({}, {"a/b/v1/1": "no route to 1", "a/b/v1/2": "no route to 2", "c/d/v1/3": "no route to 3"})},
        [
            "platform.manifestMirror: a/b and c/d: no route to 1. "
            "Set platform.manifestMirror or GPUMPI_MANIFEST_MIRROR to a directory or URL that contains the manifests."
        ],
    ),
}
