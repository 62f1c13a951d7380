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
from tests.stacks.changes import NOTHING, Change, both, cases, change, creates, deletes, differences, recreates, updates
from tests.stacks.editing import REMOVED, Values
from tests.stacks.private_cluster import PrivateCluster

pytestmark = pytest.mark.xdist_group("platform-changes")

DATA = Path(__file__).parent / "data"
MIRROR = "a copy of upstream's manifests"
"""Placeholder for the path of a copy that a test creates."""
DESCRIPTION = updates("description-description")
JOB = "jobs-*-waits"
RUNNING = ("nvidia-device-plugin-daemonset-*", "efa-device-plugin-daemonset", "mpi-operator-deployment-mpi-operator")
CONTROLLERS = ("queue-controller", "cluster-autoscaler-deployment", "job-controller-deployment")
OTHER_NAMESPACE = (
    creates(
        *("vision-job", "vision-job-*", "namespaces-vision", "namespaces-vision-*", "shared-volume-vision-*"),
        "job-controller-vision",
    ),
    deletes(
        *("research-job", "research-job-*", "namespaces-research", "namespaces-research-*", "shared-volume-research-*"),
        "job-controller-research",
    ),
    updates("job-controller-deployment"),
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
    "a change without effect": [change("platform.manifestMirror", MIRROR, NOTHING)],
    "without plugins": [
        change("platform.devicePlugin", False, deletes("nvidia-device-plugin-daemonset-*")),
        change("platform.efaPlugin", False, deletes("efa-device-plugin-daemonset")),
        change("platform.queueOrder", "bestEffort", updates("queue-cluster-queue", "queue-configuration", "queue-controller")),
        change("platform.startAttempts", 0, updates("queue-configuration", "queue-controller")),
        change("platform.idleMinutes", 20, updates("cluster-autoscaler-deployment")),
    ],
    "without an operator; monitoring; no repair by EKS": [
        change(
            "platform.mpiOperator",
            False,
            both(
                deletes("mpi-operator-*"),
                updates("queue-configuration", "queue-controller", "job-controller-mpi-jobs", "job-controller-research"),
                DESCRIPTION,
            ),
        ),
        change("platform.monitoring", True, creates("monitoring-*")),
        change("platform.remoteWrite", "https://metrics.example.com/api/v1/push", NOTHING),
        change("platform.remoteWriteLogin", "metrics-receiver", NOTHING),
        change("platform.alertReceiver", "chat", NOTHING),
        change("platform.nodeRepair", False, updates("system", "train")),
    ],
    "without a queue": [
        change(
            "platform.queue",
            False,
            both(deletes("queue-*", "namespaces-*-queue"), DESCRIPTION, recreates(JOB)),
        ),
    ],
    "without the autoscaler; TrainJobs, repositories for images and no jobs": [
        change(
            "platform.autoscaler",
            False,
            both(
                updates("system", "train"),
                deletes("*-tag-k8s.io/cluster-autoscaler/*", "autoscaler", "autoscaler-*", "cluster-autoscaler-*"),
            ),
        ),
        change("platform.trainer", True, both(creates("jobset-*", "trainer-*"), updates("queue-controller"))),
        change("platform.imageRepositories", True, both(creates("images-*"), DESCRIPTION)),
        change("jobs", REMOVED, deletes(JOB)),
    ],
    "broken nodes left alone; a namespace added, another removed": [
        change(
            "platform.nodeHealing",
            False,
            updates("train", "job-controller-nodes", "job-controller-own-lease", "job-controller-deployment"),
        ),
        change("platform.namespaces", ["mpi-jobs", "vision"], both(DESCRIPTION, *OTHER_NAMESPACE)),
    ],
    "a renamed namespace, and another namespace's level; an additional job": [
        change(
            "platform.namespaces[0]",
            {"name": "mpi-jobs", "podSecurity": "baseline"},
            both(DESCRIPTION, updates("namespaces-mpi-jobs")),
            "platform.namespaces[].podSecurity",
        ),
        change("platform.namespaces[1]", {"name": "vision"}, both(*OTHER_NAMESPACE), "platform.namespaces[].name"),
        change("jobs[1]", MORE, creates("jobs-*-more"), "jobs"),
    ],
    "another registry": [
        change(
            "platform.imageRegistry", "mirror.example.com/all", both(updates(*RUNNING, *CONTROLLERS), DESCRIPTION, recreates(JOB))
        ),
    ],
    "another repository; logs of jobs in CloudWatch": [
        change("platform.imageRepository", "registry.example.com/team", DESCRIPTION),
        change(
            "platform.jobLogs",
            "cloudwatch",
            both(creates("job-logs-*", "*-job-logs"), updates("logs-key"), DESCRIPTION),
        ),
    ],
    "a login for the registry": [change("platform.imagePullSecrets", ["login"], both(DESCRIPTION, recreates(JOB)))],
    "another transport": [
        change("platform.transport", "tcp", both(DESCRIPTION, recreates(JOB))),
    ],
    "other CPU requests": [
        change(
            "platform.cpuRequestFactor",
            0.5,
            both(
                updates(*RUNNING, *CONTROLLERS, "queue-cluster-queue", "namespaces-*-limits"),
                DESCRIPTION,
                recreates(JOB),
            ),
        ),
    ],
    "another command of a job": [change("jobs[0].command", ["other.py"], recreates(JOB), "jobs")],
    "no platform": [
        Change(
            "platform.install",
            {"platform.install": False, "jobs": REMOVED},
            both(
                deletes(
                    *(
                        f"{part}-*"
                        for part in ("nvidia-device-plugin", "efa-device-plugin", "mpi-operator", "queue", "job-controller")
                    ),
                    *("description-*", "namespaces-*", "shared-volume-*", "cluster-autoscaler-*", JOB),
                ),
                updates("train"),
            ),
        ),
    ],
}
"""Changes that do not affect the same resources share a preview."""


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    """A local cloud with one real node per system pool; nodes that the autoscaler adds are simulated."""
    capabilities = capability.examine()
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
    return editing.read(stack)


@pytest.mark.parametrize("name", cases(PREVIEWS, *SHORT))
def test_a_change_affects_exactly_the_expected_resources(name: str, stack: LocalStack, values: Values, tmp_path: Path) -> None:
    changes = PREVIEWS[name]
    changed = editing.with_changes(values, {path: value for change in changes for path, value in change.values.items()})
    if changed["platform"].get("manifestMirror") == MIRROR:
        changed["platform"]["manifestMirror"] = str(shutil.copytree(mirror.ensure(print), tmp_path / "mirror"))
    editing.write(stack, changed)
    preview = stack.run("preview")
    assert preview.ok, preview.output
    assert differences(editing.operations(preview), changes) == ([], [])


class Closed(NamedTuple):
    stack: LocalStack
    wanted: Values
    """The stack's settings, changed to install the platform."""
    early: Run
    """A preview with these settings, before the cluster exists."""


@pytest.fixture(scope="module")
def closed(cloud: LocalCloud) -> Closed:
    """The deployed private cluster. The unchanged stack file, which omits the platform, can be deployed from anywhere."""
    stack = LocalStack(cloud, "06-closed-network", Path(__file__).parents[2] / "stacks")
    stack.prepare()
    values = editing.read(stack)
    closed_values = editing.with_changes(values, {"platform.install": True})
    editing.write(stack, closed_values)
    early = stack.run("preview")
    editing.write(stack, values)
    up = stack.run("up")
    assert up.ok, up.output
    return Closed(stack, closed_values, early)


@pytest.mark.mission_only
def test_up_from_outside_a_private_cluster_reports_the_fix(closed: Closed) -> None:
    early = closed.early
    assert not early.ok and not editing.operations(early)
    assert "platform.install: is true, but" in early.errors[0] and "Set false now, and true when" in early.errors[0]

    editing.write(closed.stack, closed.wanted)
    refused = closed.stack.run("up")
    assert not refused.ok
    reason = next((error for error in refused.errors if "cannot be reached from here" in error), refused.output)
    assert (
        "run `pulumi up` from an address in target.endpointAccess.publicCidrs" in reason
        and "set `platform: {install: false}`" in reason
    )
    # The platform setting also determines which component repairs broken nodes. The engine may have started to update the node
    # group accordingly before the check ended.
    assert editing.operations(refused) in ({}, {"update": {"gpumpi-06-closed-network-train"}}), "nothing else was started"


@pytest.fixture(scope="module")
def private(closed: Closed) -> PrivateCluster:
    return PrivateCluster(closed.stack.cloud)


@pytest.mark.mission_only
def test_nodes_and_pods_of_a_private_cluster_reach_what_they_need(private: PrivateCluster) -> None:
    assert (private.join(), private.pull(), private.call("sts")) == ("", "", "")
    with private.pods_may_read():
        assert [private.call(service) for service in ("autoscaling", "efs", "eks")] == ["", "", ""]


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
def test_without_an_endpoint_nodes_do_not_join(private: PrivateCluster, service: str, message: str, host: str) -> None:
    with private.without_endpoint(service):
        reason = private.join()
    assert message in reason and f"{host} cannot be reached" in reason


@pytest.mark.mission_only
@pytest.mark.parametrize(
    ("service", "host"),
    [
        ("ecr.api", "no basic auth credentials: api.ecr.us-east-1.amazonaws.com"),
        ("ecr.dkr", "602401143452.dkr.ecr.us-east-1.amazonaws.com"),
    ],
)
def test_without_an_endpoint_images_cannot_be_pulled(private: PrivateCluster, service: str, host: str) -> None:
    """Image layers from S3 are tested in test_eks_endpoints_of_nodes.py: here, the node has them in its cache."""
    with private.without_endpoint(service):
        reason = private.pull()
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
def test_without_an_endpoint_pods_do_not_reach_the_service(private: PrivateCluster, service: str, endpoint: str) -> None:
    with private.without_endpoint(endpoint), private.pods_may_read():
        assert f'Connect timeout on endpoint URL: "https://{endpoint}.us-east-1.amazonaws.com/"' in private.call(service)


@pytest.mark.mission_only
def test_without_an_endpoint_pods_get_no_credentials(private: PrivateCluster) -> None:
    with private.without_endpoint("eks-auth"):
        assert "eks-auth.us-east-1.api.aws cannot be reached" in str(private.credentials())


@pytest.mark.mission_only
def test_nodes_of_a_private_cluster_need_its_other_permissions(private: PrivateCluster) -> None:
    with private.without_ingress():
        assert "do not allow ingress from the node on port 443" in private.join()
    with private.without_dns_hostnames():
        assert "does not enable DNS support and DNS hostnames" in private.join()
    with private.without_access_entry():
        assert "has no access entry of type EC2_LINUX" in private.join()
    with private.without_policy("AmazonEKSWorkerNodePolicy"):
        assert "may not call ec2:DescribeInstances; attach AmazonEKSWorkerNodePolicy" in private.join()
    with private.without_policy("AmazonEC2ContainerRegistryPullOnly"):
        assert "attach AmazonEC2ContainerRegistryPullOnly" in private.join()
        assert "may not call ecr:GetAuthorizationToken" in private.pull()
