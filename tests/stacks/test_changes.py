"""Effect of changing each setting of a deployed cluster, as `scripts/cluster settings` describes it, with the real
Pulumi engine.

The tests create one cluster with a pool of each kind and preview changes to it. Independent changes share a preview.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from localcloud.instance import LocalCloud
from localcloud.stack import LocalStack
from testkit.projects import create_client
from tests.stacks import editing
from tests.stacks.changes import (
    NOTHING,
    Change,
    Refused,
    expect_all,
    expect_creations,
    expect_deletions,
    expect_replacement,
    expect_rollout,
    expect_updates,
    find_differences,
    list_cases,
    make_change,
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
        make_change("target.endpointAccess.allowAnywhere", True, NOTHING),
        make_change("target.admins", [CALLER], NOTHING),
        make_change("target.system.desiredSize", 3, NOTHING),
        make_change("network.zones", ["us-west-2c", "us-west-2b"], NOTHING),
        make_change("storage.efs.mountPath", "/data", NOTHING),
        make_change("storage.efs.protect", True, NOTHING),
        make_change(f"{TRAIN}.desiredSize", 2, NOTHING),
        make_change(f"{OWN}.placementGroup", "none", NOTHING),
        make_change("budget.maxHourly", 10_000, NOTHING),
        make_change("budget.maxMonthly", 10_000_000, NOTHING),
        make_change("budget.action", "warn", NOTHING),
    ],
    "sizes": [
        make_change("target.system.minSize", 2, expect_updates("system")),
        make_change(f"{TRAIN}.minSize", 1, expect_updates("train")),
        make_change(f"{ALONE}.maxSize", 3, expect_updates("alone")),
        make_change(f"{OWN}.maxSize", 1, expect_updates("own")),
    ],
    "sizes, public CIDRs and NAT gateways": [
        make_change("target.system.maxSize", 5, expect_updates("system")),
        make_change("target.endpointAccess.publicCidrs", ["198.51.100.0/24"], expect_updates("cluster")),
        make_change("target.endpointAccess.privateCidrs", ["10.8.0.0/16"], expect_creations("cluster-10.8.0.0/16-ingress")),
        make_change(
            "network.natGateways",
            "perZone",
            expect_all(expect_creations("network-nat-us-west-2c-*"), expect_updates("network-private-us-west-2c-internet-route")),
        ),
        make_change("storage.efs.backup", True, expect_creations("storage-backup")),
        make_change(f"{TRAIN}.maxSize", 1, expect_updates("train")),
        make_change(f"{ALONE}.capacity", {"kind": "spot"}, expect_replacement("alone")),
        make_change(f"{OWN}.amiId", OTHER_IMAGE, expect_rollout("own")),
        make_change(f"{RESERVED}.capacity.reservationId", OTHER_RESERVATION, expect_rollout("reserved")),
    ],
    "no public endpoint, new instance types": [
        Change(
            "target.endpointAccess.public",
            {"target.endpointAccess.public": False, "target.endpointAccess.publicCidrs": []},
            expect_updates("cluster"),
        ),
        make_change("target.system.instanceType", "m7i.xlarge", expect_replacement("system")),
        make_change("target.addonVersions", {"coredns": "v1.13.2-eksbuild.31"}, expect_updates("service-coredns")),
        make_change("network.interfaceEndpoints", True, expect_creations("endpoint-*")),
        make_change("storage.efs.infrequentAccessAfterDays", 30, expect_updates("storage-file-system")),
        make_change(f"{TRAIN}.instanceType", "g5.12xlarge", expect_replacement("train")),
        make_change(f"{ALONE}.zone", "us-west-2c", expect_replacement("alone")),
        make_change(f"{OWN}.amiId", REMOVED, expect_all(expect_replacement("own"), expect_updates("own-launch-template"))),
        Change("pools[].capacity.resourceGroupArn", {f"{RESERVED}.capacity": RESOURCE_GROUP}, expect_rollout("reserved")),
    ],
    "no NAT, no storage, one pool removed": [
        make_change("target.deletionProtection", True, expect_updates("cluster")),
        Change(
            "network.natGateways",
            {"network.natGateways": "none", "network.interfaceEndpoints": True},
            expect_all(
                expect_creations("endpoint-*", "nodes-10.0.0.0/16-egress", "nodes-s3-egress"),
                expect_deletions("network-nat-*", "network-public-*", "network-*internet-*", "nodes-0.0.0.0/0-egress"),
                expect_updates("network-s3-endpoint"),
            ),
        ),
        make_change(
            "storage.efs", "none", expect_deletions("storage-*", "service-*efs-csi-driver", "service-efs-csi-driver-policy")
        ),
        make_change(
            f"{TRAIN}.placementGroup", "none", expect_all(expect_rollout("train"), expect_deletions("train-*placement-group"))
        ),
        make_change(
            f"{ALONE}.efa",
            False,
            expect_all(expect_rollout("alone"), expect_deletions("alone-tag-*efa*", "alone-tag-*hugepages*")),
        ),
        make_change(
            f"{OWN}.labels", {"team": "blue"}, expect_all(expect_rollout("own"), expect_creations("own-tag-*/label/team"))
        ),
        make_change(RESERVED, REMOVED, expect_deletions("reserved", "reserved-launch-template", "reserved-tag-*"), "pools"),
    ],
    "a zone, an admin and a pool added": [
        make_change("target.admins", [ADA], expect_creations("cluster-*-user-ada-access", "cluster-*-user-ada-admin")),
        make_change("target.logRetentionDays", 30, expect_updates("cluster-logs", "network-flow-logs-group")),
        make_change(
            "network.zones",
            ["us-west-2a", "us-west-2b", "us-west-2c"],
            expect_all(
                expect_creations("network-*us-west-2a*", "storage-us-west-2a-mount-target"), expect_updates("network-s3-endpoint")
            ),
        ),
        Change(
            "pools[].capacity",
            {f"{TRAIN}.capacity": RESERVATION, f"{TRAIN}.zone": "us-west-2b"},
            expect_all(expect_rollout("train"), expect_deletions("train-*placement-group")),
        ),
        make_change(
            f"{ALONE}.amiId", OTHER_IMAGE, expect_all(expect_replacement("alone"), expect_updates("alone-launch-template"))
        ),
        make_change(
            f"{RESERVED}.name",
            "other",
            expect_all(
                expect_creations("other", "other-launch-template", "other-tag-*"),
                expect_deletions("reserved", "reserved-launch-template", "reserved-tag-*"),
            ),
        ),
        make_change(
            FURTHER,
            {"name": "further", "instanceType": "g5.xlarge", "maxSize": 1},
            expect_creations("further", "further-launch-template", "further-tag-*"),
            "pools",
        ),
    ],
    "placement group, labels and disk size": [
        make_change(
            f"{TRAIN}.placementGroup", "mine", expect_all(expect_rollout("train"), expect_deletions("train-*placement-group"))
        ),
        make_change(
            f"{ALONE}.labels", {"team": "blue"}, expect_all(expect_updates("alone"), expect_creations("alone-tag-*/label/team"))
        ),
        make_change(f"{OWN}.rootVolumeGib", 200, expect_rollout("own")),
    ],
    "Kubernetes version": [
        make_change(
            "target.kubernetesVersion",
            "1.35",
            expect_updates(
                *("cluster", "system", "train", "alone", "reserved"),
                *("service-coredns", "service-kube-proxy", "service-metrics-server"),
            ),
        )
    ],
    "no autoscaler": [
        make_change(
            "platform.autoscaler",
            False,
            expect_all(
                expect_updates("system", "train", "alone", "own", "reserved"),
                expect_deletions("*-tag-k8s.io/cluster-autoscaler/*", "autoscaler", "autoscaler-*"),
            ),
        )
    ],
    "another bucket for jobs": [
        make_change(f"{BUCKET}.bucket", "models", expect_updates("mpi-jobs-job-buckets"), "platform.jobPolicies[].bucket"),
        make_change(f"{BUCKET}.path", "digits", expect_updates("mpi-jobs-job-buckets"), "platform.jobPolicies[].path"),
        make_change(f"{BUCKET}.access", "readWrite", expect_updates("mpi-jobs-job-buckets"), "platform.jobPolicies[].access"),
        make_change(
            f"{BUCKET}.namespace", "mpi-jobs", expect_updates("mpi-jobs-job-buckets"), "platform.jobPolicies[].namespace"
        ),
    ],
    "no bucket for jobs": [make_change("platform.jobPolicies", REMOVED, expect_deletions("mpi-jobs-job-buckets"))],
    "cost center": [make_change("costCenter", "vision", expect_updates("*"))],
    "tags": [make_change("tags", {"owner": "ada"}, expect_all(expect_updates("*"), expect_creations("*-tag-owner")))],
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
    return editing.deploy_stack(cloud, "changes")


@pytest.fixture(scope="module")
def values(stack: LocalStack) -> Values:
    return editing.read_settings(stack)


@pytest.mark.parametrize("name", list_cases(PREVIEWS, *SHORT))
def test_a_change_affects_exactly_the_expected_resources(name: str, stack: LocalStack, values: Values) -> None:
    changes = PREVIEWS[name]
    assert find_differences(editing.preview_changes(stack, values, changes), changes) == ([], [])


@pytest.mark.parametrize("name", REFUSED)
def test_a_change_that_a_deployed_cluster_cannot_accept_is_refused_before_anything_starts(
    name: str, stack: LocalStack, values: Values
) -> None:
    changes = REFUSED[name]
    editing.write_settings(
        stack, editing.apply_changes(values, {path: value for row in changes for path, value in row.values.items()})
    )
    preview = stack.run("preview")
    assert not preview.ok and not editing.group_operations(preview)
    for row in changes:
        assert f"{next(iter(row.values))}" in preview.errors[0] and row.problem in preview.errors[0]


def test_the_order_of_pools_in_the_file_does_not_matter(stack: LocalStack, values: Values) -> None:
    editing.write_settings(stack, {**values, "pools": values["pools"][::-1]})
    preview = stack.run("preview")
    assert (preview.ok, editing.group_operations(preview)) == (True, {}), preview.output


# --- applied changes ---------------------------------------------------------------------------------------------------


@pytest.fixture
def live_stack(stack: LocalStack, values: Values) -> Iterator[LocalStack]:
    """The deployed cluster, for tests that apply changes instead of only previewing them. The fixture restores the
    cluster afterwards."""
    editing.write_settings(stack, values)
    yield stack
    editing.write_settings(stack, values)
    back = stack.run("up")
    assert back.ok, back.output


def run_up(stack: LocalStack, values: Values, changes: Mapping[str, Any] | None = None) -> dict[str, set[str]]:
    """Run `pulumi up` with changed settings; return its operations."""
    changed = editing.apply_changes(values, changes or {})
    stack.cloud.control().create_prerequisites("us-west-2", changed)
    editing.write_settings(stack, changed)
    stack.cloud.control().reset_call_counts()
    run = stack.run("up")
    assert run.ok, run.output
    return editing.group_operations(run)


def describe_pool(stack: LocalStack, name: str) -> dict[str, Any]:
    """Return EKS's description of a pool's node group."""
    eks, cluster = create_client(stack.cloud, "eks"), f"gpumpi-{stack.name}"
    (node_group,) = [
        group
        for key in eks.list_nodegroups(clusterName=cluster)["nodegroups"]
        if (group := eks.describe_nodegroup(clusterName=cluster, nodegroupName=key)["nodegroup"])["tags"]["gpumpi:pool"] == name
    ]
    return dict(node_group)


def scale_pool(stack: LocalStack, name: str, size: int) -> None:
    """Scale like the autoscaler: on the Auto Scaling group, not through EKS."""
    group = describe_pool(stack, name)["resources"]["autoScalingGroups"][0]["name"]
    create_client(stack.cloud, "autoscaling").set_desired_capacity(AutoScalingGroupName=group, DesiredCapacity=size)


def list_instance_tags(stack: LocalStack, name: str) -> dict[str, dict[str, str]]:
    """Return the tags of the pool's running instances, keyed by instance id."""
    filters = [{"Name": "tag:gpumpi:pool", "Values": [name]}, {"Name": "instance-state-name", "Values": ["pending", "running"]}]
    reservations = create_client(stack.cloud, "ec2").describe_instances(Filters=filters)["Reservations"]
    instances = [instance for reservation in reservations for instance in reservation["Instances"]]
    return {instance["InstanceId"]: {tag["Key"]: tag["Value"] for tag in instance["Tags"]} for instance in instances}


def read_sizes(stack: LocalStack, name: str) -> tuple[int, int, int]:
    scaling = describe_pool(stack, name)["scalingConfig"]
    return scaling["minSize"], scaling["desiredSize"], scaling["maxSize"]


@pytest.mark.mission_only
def test_the_autoscaler_controls_the_size_of_a_pool_within_its_limits(live_stack: LocalStack, values: Values) -> None:
    scale_pool(live_stack, "train", 3)
    assert run_up(live_stack, values) == {}
    assert read_sizes(live_stack, "train") == (0, 3, 4)

    run_up(live_stack, values, {f"{TRAIN}.maxSize": 6})
    assert read_sizes(live_stack, "train") == (0, 3, 6)
    assert live_stack.cloud.control().writes() == {"eks.UpdateNodegroupConfig": 1}, "a resize makes no other call"

    run_up(live_stack, values, {f"{TRAIN}.maxSize": 6, f"{TRAIN}.minSize": 5})
    assert read_sizes(live_stack, "train") == (5, 5, 6)


@pytest.mark.mission_only
def test_up_restores_a_changed_pool_size_if_there_is_no_autoscaler(live_stack: LocalStack, values: Values) -> None:
    without = editing.apply_changes(values, {"platform.autoscaler": False, f"{TRAIN}.desiredSize": 1})
    run_up(live_stack, without)
    assert read_sizes(live_stack, "train") == (0, 1, 4)
    scale_pool(live_stack, "train", 3)
    live_stack.run("refresh")
    assert run_up(live_stack, without) == {"update": {"train"}}
    assert read_sizes(live_stack, "train") == (0, 1, 4)


def test_a_changed_tag_restarts_no_node_and_applies_to_new_nodes(live_stack: LocalStack, values: Values) -> None:
    scale_pool(live_stack, "train", 1)
    before = list_instance_tags(live_stack, "train")
    run_up(live_stack, values, {"costCenter": "vision", "tags": {"owner": "ada"}})
    assert "eks.UpdateNodegroupVersion" not in live_stack.cloud.control().writes()
    scale_pool(live_stack, "train", 2)
    after = list_instance_tags(live_stack, "train")
    assert before.items() <= after.items()
    (new,) = after.keys() - before.keys()
    assert (after[new]["cost-center"], after[new]["owner"]) == ("vision", "ada")


@pytest.mark.mission_only
def test_adding_and_removing_a_zone_replaces_no_existing_resource(live_stack: LocalStack, values: Values) -> None:
    more = editing.apply_changes(values, {"network.zones": ["us-west-2a", "us-west-2b", "us-west-2c"]})
    created = run_up(live_stack, more)["create"]
    assert run_up(live_stack, more) == {}
    back = run_up(live_stack, values)
    assert (back["delete"], set(back)) == (created, {"delete", "update"})


@pytest.mark.mission_only
def test_a_pool_with_running_nodes_can_be_replaced_or_updated(live_stack: LocalStack, values: Values) -> None:
    """A new zone needs a new placement group, and a first custom AMI needs a new node group."""
    scale_pool(live_stack, "train", 2)
    scale_pool(live_stack, "own", 1)
    old = list_instance_tags(live_stack, "train").keys() | list_instance_tags(live_stack, "own").keys()
    changes = {f"{TRAIN}.zone": "us-west-2c", f"{OWN}.rootVolumeGib": 200, f"{ALONE}.amiId": OTHER_IMAGE}
    done = run_up(live_stack, values, changes)
    assert {"train", "alone"} <= done["replace"] and done["update"] == {"own", "own-launch-template", "alone-launch-template"} | (
        {"train-launch-template"}
    )
    assert not old & (list_instance_tags(live_stack, "train").keys() | list_instance_tags(live_stack, "own").keys())
    assert len(list_instance_tags(live_stack, "own")) == 1
    assert describe_pool(live_stack, "alone")["amiType"] == "CUSTOM"
    assert run_up(live_stack, values, changes) == {}
