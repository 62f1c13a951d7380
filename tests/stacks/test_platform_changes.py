"""Effect of changing each setting of `platform` and `jobs` in a real cluster; test_changes.py covers AWS resources."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from localcloud import mirror
from localcloud.instance import LocalCloud
from localcloud.kubernetes import capability
from localcloud.kubernetes.nodes.limits import VARIABLE as NODES
from localcloud.stack import LocalStack, Run
from tests.stacks import editing
from tests.stacks.changes import (
    NOTHING,
    Change,
    expect_all,
    expect_creations,
    expect_deletions,
    expect_recreation,
    expect_updates,
    find_differences,
    list_cases,
    make_change,
)
from tests.stacks.editing import REMOVED, Values
from tests.stacks.private_cluster import PrivateCluster

pytestmark = pytest.mark.xdist_group("platform-changes")

DATA = Path(__file__).parent / "data"
MIRROR = "a copy of upstream's manifests"
"""Placeholder for the path of a copy that a test creates."""
DESCRIPTION = expect_updates("description-description")
JOB = "jobs-*-waits"
RUNNING = ("nvidia-device-plugin-daemonset-*", "efa-device-plugin-daemonset", "mpi-operator-deployment-mpi-operator")
CONTROLLERS = ("queue-controller", "cluster-autoscaler-deployment", "job-controller-deployment")
OTHER_NAMESPACE = (
    expect_creations(
        *("vision-job", "vision-job-*", "namespaces-vision", "namespaces-vision-*", "shared-volume-vision-*"),
        "job-controller-vision",
    ),
    expect_deletions(
        *("research-job", "research-job-*", "namespaces-research", "namespaces-research-*", "shared-volume-research-*"),
        "job-controller-research",
    ),
    expect_updates("job-controller-deployment"),
)
"""Changes caused by replacing namespace `research` with `vision`."""
MORE = {
    "name": "more",
    "launcher": "torchrun",
    "pool": "train",
    "workers": 1,
    "image": "nobody.example.com/has:1",
    "command": ["x"],
}

SHORT = (
    "a change without effect",
    "without an operator; monitoring; no repair by EKS",
    "broken nodes left alone; a namespace added, another removed",
)
"""Previews that `make test` runs; `make mission` runs all."""
PREVIEWS: dict[str, list[Change]] = {
    "a change without effect": [make_change("platform.manifestMirror", MIRROR, NOTHING)],
    "without plugins": [
        make_change("platform.devicePlugin", False, expect_deletions("nvidia-device-plugin-daemonset-*")),
        make_change("platform.efaPlugin", False, expect_deletions("efa-device-plugin-daemonset")),
        make_change(
            "platform.queueOrder", "bestEffort", expect_updates("queue-cluster-queue", "queue-configuration", "queue-controller")
        ),
        make_change("platform.startAttempts", 0, expect_updates("queue-configuration", "queue-controller")),
        make_change("platform.idleMinutes", 20, expect_updates("cluster-autoscaler-deployment")),
    ],
    "without an operator; monitoring; no repair by EKS": [
        make_change(
            "platform.mpiOperator",
            False,
            expect_all(
                expect_deletions("mpi-operator-*"),
                expect_updates("queue-configuration", "queue-controller", "job-controller-mpi-jobs", "job-controller-research"),
                DESCRIPTION,
            ),
        ),
        make_change("platform.monitoring", True, expect_creations("monitoring-*")),
        make_change("platform.remoteWrite", "https://metrics.example.com/api/v1/push", NOTHING),
        make_change("platform.remoteWriteLogin", "metrics-receiver", NOTHING),
        make_change("platform.alertReceiver", "chat", NOTHING),
        make_change("platform.nodeRepair", False, expect_updates("system", "train")),
    ],
    "without a queue": [
        make_change(
            "platform.queue",
            False,
            expect_all(expect_deletions("queue-*", "namespaces-*-queue"), DESCRIPTION, expect_recreation(JOB)),
        ),
    ],
    "without the autoscaler; TrainJobs, repositories for images and no jobs": [
        make_change(
            "platform.autoscaler",
            False,
            expect_all(
                expect_updates("system", "train"),
                expect_deletions("*-tag-k8s.io/cluster-autoscaler/*", "autoscaler", "autoscaler-*", "cluster-autoscaler-*"),
            ),
        ),
        make_change(
            "platform.trainer", True, expect_all(expect_creations("jobset-*", "trainer-*"), expect_updates("queue-controller"))
        ),
        make_change("platform.imageRepositories", True, expect_all(expect_creations("images-*"), DESCRIPTION)),
        make_change("jobs", REMOVED, expect_deletions(JOB)),
    ],
    "broken nodes left alone; a namespace added, another removed": [
        make_change(
            "platform.nodeHealing",
            False,
            expect_updates("train", "job-controller-nodes", "job-controller-own-lease", "job-controller-deployment"),
        ),
        make_change("platform.namespaces", ["mpi-jobs", "vision"], expect_all(DESCRIPTION, *OTHER_NAMESPACE)),
    ],
    "a renamed namespace, and another namespace's level; an additional job": [
        make_change(
            "platform.namespaces[0]",
            {"name": "mpi-jobs", "podSecurity": "baseline"},
            expect_all(DESCRIPTION, expect_updates("namespaces-mpi-jobs")),
            "platform.namespaces[].podSecurity",
        ),
        make_change("platform.namespaces[1]", {"name": "vision"}, expect_all(*OTHER_NAMESPACE), "platform.namespaces[].name"),
        make_change("jobs[1]", MORE, expect_creations("jobs-*-more"), "jobs"),
    ],
    "another registry": [
        make_change(
            "platform.imageRegistry",
            "mirror.example.com/all",
            expect_all(expect_updates(*RUNNING, *CONTROLLERS), DESCRIPTION, expect_recreation(JOB)),
        ),
    ],
    "another repository; logs of jobs in CloudWatch": [
        make_change("platform.imageRepository", "registry.example.com/team", DESCRIPTION),
        make_change(
            "platform.jobLogs",
            "cloudwatch",
            expect_all(expect_creations("job-logs-*", "*-job-logs"), expect_updates("logs-key"), DESCRIPTION),
        ),
    ],
    "a login for the registry": [
        make_change("platform.imagePullSecrets", ["login"], expect_all(DESCRIPTION, expect_recreation(JOB)))
    ],
    "another transport": [
        make_change("platform.transport", "tcp", expect_all(DESCRIPTION, expect_recreation(JOB))),
    ],
    "other CPU requests": [
        make_change(
            "platform.cpuRequestFactor",
            0.5,
            expect_all(
                expect_updates(*RUNNING, *CONTROLLERS, "queue-cluster-queue", "namespaces-*-limits"),
                DESCRIPTION,
                expect_recreation(JOB),
            ),
        ),
    ],
    "another command of a job": [make_change("jobs[0].command", ["other.py"], expect_recreation(JOB), "jobs")],
    "no platform": [
        Change(
            "platform.install",
            {"platform.install": False, "jobs": REMOVED},
            expect_all(
                expect_deletions(
                    *(
                        f"{part}-*"
                        for part in ("nvidia-device-plugin", "efa-device-plugin", "mpi-operator", "queue", "job-controller")
                    ),
                    *("description-*", "namespaces-*", "shared-volume-*", "cluster-autoscaler-*", JOB),
                ),
                expect_updates("train"),
            ),
        ),
    ],
}
"""Changes that do not affect the same resources share a preview."""


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    """A local cloud with one real node per system pool; nodes that the autoscaler adds are simulated."""
    capabilities = capability.check_machine()
    if not capabilities.real_nodes:
        pytest.skip("; ".join(capabilities.missing))
    local_cloud = LocalCloud(tmp_path_factory.mktemp("platform") / "cloud")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, NODES, "cpu=1,gpu=0")
        local_cloud.start(print, kubernetes=True)
    yield local_cloud
    local_cloud.stop()


@pytest.fixture(scope="module")
def stack(cloud: LocalCloud) -> LocalStack:
    """The deployed cluster."""
    local_stack = LocalStack(cloud, "platform", DATA)
    local_stack.prepare()
    up = local_stack.run("up")
    assert up.ok, up.output
    return local_stack


@pytest.fixture(scope="module")
def values(stack: LocalStack) -> Values:
    return editing.read_settings(stack)


@pytest.mark.parametrize("name", list_cases(PREVIEWS, *SHORT))
def test_a_change_affects_exactly_the_expected_resources(name: str, stack: LocalStack, values: Values, tmp_path: Path) -> None:
    changes = PREVIEWS[name]
    changed = editing.apply_changes(values, {path: value for change in changes for path, value in change.values.items()})
    if changed["platform"].get("manifestMirror") == MIRROR:
        changed["platform"]["manifestMirror"] = str(shutil.copytree(mirror.ensure_mirror(print), tmp_path / "mirror"))
    editing.write_settings(stack, changed)
    preview = stack.run("preview")
    assert preview.ok, preview.output
    assert find_differences(editing.group_operations(preview), changes) == ([], [])


class Closed(NamedTuple):
    stack: LocalStack
    wanted: Values
    """The stack's settings, changed to install the platform."""
    early: Run
    """A preview with these settings, before the cluster exists."""


@pytest.fixture(scope="module")
def private_deployment(cloud: LocalCloud) -> Closed:
    """The deployed private cluster. The unchanged stack file, which omits the platform, can be deployed from anywhere."""
    stack = LocalStack(cloud, "06-closed-network", Path(__file__).parents[2] / "stacks")
    stack.prepare()
    values = editing.read_settings(stack)
    closed_values = editing.apply_changes(values, {"platform.install": True})
    editing.write_settings(stack, closed_values)
    early = stack.run("preview")
    editing.write_settings(stack, values)
    up = stack.run("up")
    assert up.ok, up.output
    return Closed(stack, closed_values, early)


@pytest.mark.mission_only
def test_an_up_from_outside_a_private_cluster_reports_the_fix(private_deployment: Closed) -> None:
    early = private_deployment.early
    assert not early.ok and not editing.group_operations(early)
    assert "platform.install: is true, but" in early.errors[0] and "Set false now, and true when" in early.errors[0]

    editing.write_settings(private_deployment.stack, private_deployment.wanted)
    refused = private_deployment.stack.run("up")
    assert not refused.ok
    reason = next((error for error in refused.errors if "cannot be reached from here" in error), refused.output)
    assert (
        "run `pulumi up` from an address in target.endpointAccess.publicCidrs" in reason
        and "set `platform: {install: false}`" in reason
    )
    # The platform setting also determines which component repairs broken nodes. The engine may have started to update the node
    # group accordingly before the check ended.
    assert editing.group_operations(refused) in ({}, {"update": {"gpumpi-06-closed-network-train"}}), "nothing else was started"


@pytest.fixture(scope="module")
def private_cluster(private_deployment: Closed) -> PrivateCluster:
    return PrivateCluster(private_deployment.stack.cloud)


@pytest.mark.mission_only
def test_nodes_and_pods_of_a_private_cluster_reach_the_services_they_need(private_cluster: PrivateCluster) -> None:
    assert (private_cluster.try_join(), private_cluster.try_pull(), private_cluster.call_service("sts")) == ("", "", "")
    with private_cluster.allow_pods_to_read():
        assert [private_cluster.call_service(service) for service in ("autoscaling", "efs", "eks")] == ["", "", ""]


NOT_JOINED = "Instances failed to join the kubernetes cluster: "
NOT_READY = "Unhealthy nodes in the kubernetes cluster: "


@pytest.mark.mission_only
@pytest.mark.parametrize(
    ("service", "message", "host"),
    [
        ("ec2", NOT_JOINED, "ec2.us-east-1.amazonaws.com"),
        ("ecr.api", NOT_READY, "api.ecr.us-east-1.amazonaws.com"),
        ("ecr.dkr", NOT_READY, "602401143452.dkr.ecr.us-east-1.amazonaws.com"),
        ("s3", NOT_READY, "prod-us-east-1-starport-layer-bucket.s3.us-east-1.amazonaws.com"),
        ("eks-auth", NOT_READY, "eks-auth.us-east-1.api.aws"),
    ],
)
def test_nodes_do_not_join_without_the_required_endpoint(
    private_cluster: PrivateCluster, service: str, message: str, host: str
) -> None:
    with private_cluster.remove_endpoint(service):
        reason = private_cluster.try_join()
    assert message in reason and f"{host} cannot be reached" in reason


@pytest.mark.mission_only
@pytest.mark.parametrize(
    ("service", "host"),
    [
        ("ecr.api", "no basic auth credentials: api.ecr.us-east-1.amazonaws.com"),
        ("ecr.dkr", "602401143452.dkr.ecr.us-east-1.amazonaws.com"),
    ],
)
def test_images_cannot_be_pulled_without_the_required_endpoint(private_cluster: PrivateCluster, service: str, host: str) -> None:
    """Image layers from S3 are tested in test_eks_endpoints_of_nodes.py: here, the node has them in its cache."""
    with private_cluster.remove_endpoint(service):
        reason = private_cluster.try_pull()
    assert f"{host} cannot be reached" in reason


@pytest.mark.mission_only
@pytest.mark.parametrize(
    ("service", "endpoint"),
    [
        ("autoscaling", "autoscaling"),
        ("efs", "elasticfilesystem"),
        ("eks", "eks"),
        ("sts", "sts"),
    ],
)
def test_pods_cannot_reach_a_service_without_its_endpoint(private_cluster: PrivateCluster, service: str, endpoint: str) -> None:
    with private_cluster.remove_endpoint(endpoint), private_cluster.allow_pods_to_read():
        assert f'Connect timeout on endpoint URL: "https://{endpoint}.us-east-1.amazonaws.com/"' in private_cluster.call_service(
            service
        )


@pytest.mark.mission_only
def test_pods_get_no_credentials_without_the_required_endpoint(private_cluster: PrivateCluster) -> None:
    with private_cluster.remove_endpoint("eks-auth"):
        assert "eks-auth.us-east-1.api.aws cannot be reached" in str(private_cluster.request_credentials())


@pytest.mark.mission_only
def test_nodes_of_a_private_cluster_need_ingress_dns_and_an_access_entry(private_cluster: PrivateCluster) -> None:
    with private_cluster.remove_ingress():
        assert "do not allow ingress from the node on port 443" in private_cluster.try_join()
    with private_cluster.disable_dns_hostnames():
        assert "does not enable DNS support and DNS hostnames" in private_cluster.try_join()
    with private_cluster.replace_access_entry():
        assert "has no access entry of type EC2_LINUX" in private_cluster.try_join()
    with private_cluster.detach_policy("AmazonEKSWorkerNodePolicy"):
        assert "may not call ec2:DescribeInstances; attach AmazonEKSWorkerNodePolicy" in private_cluster.try_join()
    with private_cluster.detach_policy("AmazonEC2ContainerRegistryPullOnly"):
        assert "attach AmazonEC2ContainerRegistryPullOnly" in private_cluster.try_join()
        assert "may not call ecr:GetAuthorizationToken" in private_cluster.try_pull()
