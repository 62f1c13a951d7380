"""Effect of changing each setting of a deployed cluster, as `scripts/cluster settings` describes it, with the real
Pulumi engine.

The tests create one cluster with a pool of each kind and preview changes to it. Independent changes share a preview.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from localcloud.instance import LocalCloud
from localcloud.stack import LocalStack
from testkit.projects import client
from tests.stacks import editing
from tests.stacks.changes import (
    NOTHING,
    Change,
    Refused,
    both,
    cases,
    change,
    creates,
    deletes,
    differences,
    replaces,
    rolls,
    updates,
)
from tests.stacks.editing import REMOVED, Values

pytestmark = pytest.mark.xdist_group("changes")

TRAIN, ALONE, OWN, RESERVED, FURTHER = (f"pools[{index}]" for index in range(5))
BUCKET = "platform.jobPolicies[0]"
ADA = "arn:aws:iam::123456789012:user/ada"
CALLER = "arn:aws:iam::123456789012:user/local-engineer"
RESERVATION = {"kind": "targeted-odcr", "reservationId": "cr-0123456789abcdef9"}
OTHER_RESERVATION = "cr-0123456789abcdef8"
RESOURCE_GROUP = {"kind": "targeted-odcr", "resourceGroupArn": "arn:aws:resource-groups:us-west-2:123456789012:group/gpus"}
OTHER_IMAGE = "ami-0123456789abcdef1"

SHORT = (
    "changes without effect",
    "placement group, labels and disk size",
    "a zone, an admin and a pool added",
    "tags",
)
"""Previews that `make test` runs; `make mission` runs all."""
PREVIEWS: dict[str, list[Change]] = {
    "changes without effect": [
        change("target.endpointAccess.allowAnywhere", True, NOTHING),
        change("target.admins", [CALLER], NOTHING),
        change("target.system.desiredSize", 3, NOTHING),
        change("network.zones", ["us-west-2c", "us-west-2b"], NOTHING),
        change("storage.efs.mountPath", "/data", NOTHING),
        change("storage.efs.protect", True, NOTHING),
        change(f"{TRAIN}.desiredSize", 2, NOTHING),
        change(f"{OWN}.placementGroup", "none", NOTHING),
        change("budget.maxHourly", 10_000, NOTHING),
        change("budget.maxMonthly", 10_000_000, NOTHING),
        change("budget.action", "warn", NOTHING),
    ],
    "sizes": [
        change("target.system.minSize", 2, updates("system")),
        change(f"{TRAIN}.minSize", 1, updates("train")),
        change(f"{ALONE}.maxSize", 3, updates("alone")),
        change(f"{OWN}.maxSize", 1, updates("own")),
    ],
    "sizes, public CIDRs and NAT gateways": [
        change("target.system.maxSize", 5, updates("system")),
        change("target.endpointAccess.publicCidrs", ["198.51.100.0/24"], updates("cluster")),
        change("target.endpointAccess.privateCidrs", ["10.8.0.0/16"], creates("cluster-10.8.0.0/16-ingress")),
        change(
            "network.natGateways",
            "perZone",
            both(creates("network-nat-us-west-2c-*"), updates("network-private-us-west-2c-internet-route")),
        ),
        change("storage.efs.backup", True, creates("storage-backup")),
        change(f"{TRAIN}.maxSize", 1, updates("train")),
        change(f"{ALONE}.capacity", {"kind": "spot"}, replaces("alone")),
        change(f"{OWN}.amiId", OTHER_IMAGE, rolls("own")),
        change(f"{RESERVED}.capacity.reservationId", OTHER_RESERVATION, rolls("reserved")),
    ],
    "no public endpoint, new instance types": [
        Change(
            "target.endpointAccess.public",
            {"target.endpointAccess.public": False, "target.endpointAccess.publicCidrs": []},
            updates("cluster"),
        ),
        change("target.system.instanceType", "m7i.xlarge", replaces("system")),
        change("target.addonVersions", {"coredns": "v1.13.2-eksbuild.31"}, updates("service-coredns")),
        change("network.interfaceEndpoints", True, creates("endpoint-*")),
        change("storage.efs.infrequentAccessAfterDays", 30, updates("storage-file-system")),
        change(f"{TRAIN}.instanceType", "g5.12xlarge", replaces("train")),
        change(f"{ALONE}.zone", "us-west-2c", replaces("alone")),
        change(f"{OWN}.amiId", REMOVED, both(replaces("own"), updates("own-launch-template"))),
        Change("pools[].capacity.resourceGroupArn", {f"{RESERVED}.capacity": RESOURCE_GROUP}, rolls("reserved")),
    ],
    "no NAT, no storage, one pool removed": [
        change("target.deletionProtection", True, updates("cluster")),
        Change(
            "network.natGateways",
            {"network.natGateways": "none", "network.interfaceEndpoints": True},
            both(
                creates("endpoint-*", "nodes-10.0.0.0/16-egress", "nodes-s3-egress"),
                deletes("network-nat-*", "network-public-*", "network-*internet-*", "nodes-0.0.0.0/0-egress"),
                updates("network-s3-endpoint"),
            ),
        ),
        change("storage.efs", "none", deletes("storage-*", "service-*efs-csi-driver", "service-efs-csi-driver-policy")),
        change(f"{TRAIN}.placementGroup", "none", both(rolls("train"), deletes("train-*placement-group"))),
        change(f"{ALONE}.efa", False, both(rolls("alone"), deletes("alone-tag-*efa*", "alone-tag-*hugepages*"))),
        change(f"{OWN}.labels", {"team": "blue"}, both(rolls("own"), creates("own-tag-*/label/team"))),
        change(RESERVED, REMOVED, deletes("reserved", "reserved-launch-template", "reserved-tag-*"), "pools"),
    ],
    "a zone, an admin and a pool added": [
        change("target.admins", [ADA], creates("cluster-*-user-ada-access", "cluster-*-user-ada-admin")),
        change("target.logRetentionDays", 30, updates("cluster-logs", "network-flow-logs-group")),
        change(
            "network.zones",
            ["us-west-2a", "us-west-2b", "us-west-2c"],
            both(creates("network-*us-west-2a*", "storage-us-west-2a-mount-target"), updates("network-s3-endpoint")),
        ),
        Change(
            "pools[].capacity",
            {f"{TRAIN}.capacity": RESERVATION, f"{TRAIN}.zone": "us-west-2b"},
            both(rolls("train"), deletes("train-*placement-group")),
        ),
        change(f"{ALONE}.amiId", OTHER_IMAGE, both(replaces("alone"), updates("alone-launch-template"))),
        change(
            f"{RESERVED}.name",
            "other",
            both(
                creates("other", "other-launch-template", "other-tag-*"),
                deletes("reserved", "reserved-launch-template", "reserved-tag-*"),
            ),
        ),
        change(
            FURTHER,
            {"name": "further", "instanceType": "g5.xlarge", "maxSize": 1},
            creates("further", "further-launch-template", "further-tag-*"),
            "pools",
        ),
    ],
    "placement group, labels and disk size": [
        change(f"{TRAIN}.placementGroup", "mine", both(rolls("train"), deletes("train-*placement-group"))),
        change(f"{ALONE}.labels", {"team": "blue"}, both(updates("alone"), creates("alone-tag-*/label/team"))),
        change(f"{OWN}.rootVolumeGib", 200, rolls("own")),
    ],
    "Kubernetes version": [
        change(
            "target.kubernetesVersion",
            "1.35",
            updates(
                *("cluster", "system", "train", "alone", "reserved"),
                *("service-coredns", "service-kube-proxy", "service-metrics-server"),
            ),
        )
    ],
    "no autoscaler": [
        change(
            "platform.autoscaler",
            False,
            both(
                updates("system", "train", "alone", "own", "reserved"),
                deletes("*-tag-k8s.io/cluster-autoscaler/*", "autoscaler", "autoscaler-*"),
            ),
        )
    ],
    "another bucket for jobs": [
        change(f"{BUCKET}.bucket", "models", updates("mpi-jobs-job-buckets"), "platform.jobPolicies[].bucket"),
        change(f"{BUCKET}.path", "digits", updates("mpi-jobs-job-buckets"), "platform.jobPolicies[].path"),
        change(f"{BUCKET}.access", "readWrite", updates("mpi-jobs-job-buckets"), "platform.jobPolicies[].access"),
        change(f"{BUCKET}.namespace", "mpi-jobs", updates("mpi-jobs-job-buckets"), "platform.jobPolicies[].namespace"),
    ],
    "no bucket for jobs": [change("platform.jobPolicies", REMOVED, deletes("mpi-jobs-job-buckets"))],
    "cost center": [change("costCenter", "vision", updates("*"))],
    "tags": [change("tags", {"owner": "ada"}, both(updates("*"), creates("*-tag-owner")))],
}
REFUSED: dict[str, list[Refused]] = {
    "another network": [
        Refused("network.cidr", {"network.cidr": "10.1.0.0/16"}, "the cluster's VPC has 10.0.0.0/16, which cannot change"),
        Refused("target.kubernetesVersion", {"target.kubernetesVersion": "1.36"}, "skips a minor version: the cluster has 1.34"),
    ],
    "fewer zones": [
        Refused("network.zones", {"network.zones": ["us-west-2a", "us-west-2b"]}, "omits us-west-2c, but the control plane is")
    ],
    "another VPC": [
        Refused(
            "network.vpcId",
            {
                "network": {
                    "vpcId": "vpc-0123456789abcdef0",
                    "subnetIds": ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"],
                }
            },
            "names a VPC, but the cluster is in vpc-",
        )
    ],
    "another target": [Refused("target.kind", {"target.kind": "other"}, '"other" is not valid. Use eks, ec2 or existing.')],
}


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    local_cloud = LocalCloud(tmp_path_factory.mktemp("changes") / "cloud")
    local_cloud.start(print)
    yield local_cloud
    local_cloud.stop()


@pytest.fixture(scope="module")
def stack(cloud: LocalCloud) -> LocalStack:
    """The deployed cluster."""
    return editing.brought_up(cloud, "changes")


@pytest.fixture(scope="module")
def values(stack: LocalStack) -> Values:
    return editing.read(stack)


@pytest.mark.parametrize("name", cases(PREVIEWS, *SHORT))
def test_a_change_affects_exactly_the_expected_resources(name: str, stack: LocalStack, values: Values) -> None:
    changes = PREVIEWS[name]
    assert differences(editing.previewed(stack, values, changes), changes) == ([], [])


@pytest.mark.parametrize("name", REFUSED)
def test_a_change_that_a_deployed_cluster_cannot_accept_is_refused_before_anything_starts(
    name: str, stack: LocalStack, values: Values
) -> None:
    changes = REFUSED[name]
    editing.write(stack, editing.with_changes(values, {path: value for row in changes for path, value in row.values.items()}))
    preview = stack.run("preview")
    assert not preview.ok and not editing.operations(preview)
    for row in changes:
        assert f"{next(iter(row.values))}" in preview.errors[0] and row.problem in preview.errors[0]


def test_the_order_of_pools_in_the_file_does_not_matter(stack: LocalStack, values: Values) -> None:
    editing.write(stack, {**values, "pools": values["pools"][::-1]})
    preview = stack.run("preview")
    assert (preview.ok, editing.operations(preview)) == (True, {}), preview.output


# --- applied changes ---------------------------------------------------------------------------------------------------


@pytest.fixture
def live(stack: LocalStack, values: Values) -> Iterator[LocalStack]:
    """The cluster, for tests that apply changes instead of only previewing them. The fixture restores it afterwards."""
    editing.write(stack, values)
    yield stack
    editing.write(stack, values)
    back = stack.run("up")
    assert back.ok, back.output


def up(stack: LocalStack, values: Values, changes: Mapping[str, Any] | None = None) -> dict[str, set[str]]:
    """Run `pulumi up` with changed settings; return its operations."""
    changed = editing.with_changes(values, changes or {})
    stack.cloud.control().grant("us-west-2", changed)
    editing.write(stack, changed)
    stack.cloud.control().forget_calls()
    run = stack.run("up")
    assert run.ok, run.output
    return editing.operations(run)


def pool(stack: LocalStack, name: str) -> dict[str, Any]:
    """Return EKS's description of a pool's node group."""
    eks, cluster = client(stack.cloud, "eks"), f"gpumpi-{stack.name}"
    (node_group,) = [
        group
        for key in eks.list_nodegroups(clusterName=cluster)["nodegroups"]
        if (group := eks.describe_nodegroup(clusterName=cluster, nodegroupName=key)["nodegroup"])["tags"]["gpumpi:pool"] == name
    ]
    return dict(node_group)


def scale(stack: LocalStack, name: str, size: int) -> None:
    """Scale like the autoscaler: on the Auto Scaling group, not through EKS."""
    group = pool(stack, name)["resources"]["autoScalingGroups"][0]["name"]
    client(stack.cloud, "autoscaling").set_desired_capacity(AutoScalingGroupName=group, DesiredCapacity=size)


def nodes(stack: LocalStack, name: str) -> dict[str, dict[str, str]]:
    """Return the tags of the pool's running instances, keyed by instance id."""
    filters = [{"Name": "tag:gpumpi:pool", "Values": [name]}, {"Name": "instance-state-name", "Values": ["pending", "running"]}]
    reservations = client(stack.cloud, "ec2").describe_instances(Filters=filters)["Reservations"]
    instances = [instance for reservation in reservations for instance in reservation["Instances"]]
    return {instance["InstanceId"]: {tag["Key"]: tag["Value"] for tag in instance["Tags"]} for instance in instances}


def sizes(stack: LocalStack, name: str) -> tuple[int, int, int]:
    scaling = pool(stack, name)["scalingConfig"]
    return scaling["minSize"], scaling["desiredSize"], scaling["maxSize"]


@pytest.mark.mission_only
def test_the_autoscaler_owns_a_pools_size_between_its_bounds(live: LocalStack, values: Values) -> None:
    scale(live, "train", 3)
    assert up(live, values) == {}
    assert sizes(live, "train") == (0, 3, 4)

    up(live, values, {f"{TRAIN}.maxSize": 6})
    assert sizes(live, "train") == (0, 3, 6)
    assert live.cloud.control().writes() == {"eks.UpdateNodegroupConfig": 1}, "a resize makes no other call"

    up(live, values, {f"{TRAIN}.maxSize": 6, f"{TRAIN}.minSize": 5})
    assert sizes(live, "train") == (5, 5, 6)


@pytest.mark.mission_only
def test_without_the_autoscaler_a_pools_size_is_restored(live: LocalStack, values: Values) -> None:
    without = editing.with_changes(values, {"platform.autoscaler": False, f"{TRAIN}.desiredSize": 1})
    up(live, without)
    assert sizes(live, "train") == (0, 1, 4)
    scale(live, "train", 3)
    live.run("refresh")
    assert up(live, without) == {"update": {"train"}}
    assert sizes(live, "train") == (0, 1, 4)


def test_another_tag_restarts_no_node_and_new_nodes_have_it(live: LocalStack, values: Values) -> None:
    scale(live, "train", 1)
    before = nodes(live, "train")
    up(live, values, {"costCenter": "vision", "tags": {"owner": "ada"}})
    assert "eks.UpdateNodegroupVersion" not in live.cloud.control().writes()
    scale(live, "train", 2)
    after = nodes(live, "train")
    assert before.items() <= after.items()
    (new,) = after.keys() - before.keys()
    assert (after[new]["cost-center"], after[new]["owner"]) == ("vision", "ada")


@pytest.mark.mission_only
def test_adding_and_removing_a_zone_moves_nothing(live: LocalStack, values: Values) -> None:
    more = editing.with_changes(values, {"network.zones": ["us-west-2a", "us-west-2b", "us-west-2c"]})
    created = up(live, more)["create"]
    assert up(live, more) == {}
    back = up(live, values)
    assert (back["delete"], set(back)) == (created, {"delete", "update"})


@pytest.mark.mission_only
def test_a_pool_with_nodes_is_replaced_and_rolled(live: LocalStack, values: Values) -> None:
    """A new zone needs a new placement group, and a first custom AMI needs a new node group."""
    scale(live, "train", 2)
    scale(live, "own", 1)
    old = nodes(live, "train").keys() | nodes(live, "own").keys()
    changes = {f"{TRAIN}.zone": "us-west-2c", f"{OWN}.rootVolumeGib": 200, f"{ALONE}.amiId": OTHER_IMAGE}
    done = up(live, values, changes)
    assert {"train", "alone"} <= done["replace"] and done["update"] == {"own", "own-launch-template", "alone-launch-template"} | (
        {"train-launch-template"}
    )
    assert not old & (nodes(live, "train").keys() | nodes(live, "own").keys())
    assert len(nodes(live, "own")) == 1
    assert pool(live, "alone")["amiType"] == "CUSTOM"
    assert up(live, values, changes) == {}
