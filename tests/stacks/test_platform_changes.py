"""Effect of changing each setting of `platform` and `jobs` in a real cluster; test_changes.py covers AWS resources."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcloud import mirror
from localcloud.instance import LocalCloud
from localcloud.kubernetes import capability
from localcloud.kubernetes.nodes.limits import VARIABLE as NODES
from localcloud.stack import LocalStack
from tests.stacks import editing
from tests.stacks.changes import NOTHING, Change, both, change, creates, deletes, differences, recreates, updates
from tests.stacks.editing import REMOVED, Values

pytestmark = pytest.mark.xdist_group("platform-changes")

DATA = Path(__file__).parent / "data"
MIRROR = "a copy of upstream's manifests"
"""Placeholder for the path of a copy that a test creates."""
DESCRIPTION = updates("description-description")
JOB = "jobs-*-waits"
RUNNING = ("nvidia-device-plugin-daemonset-*", "efa-device-plugin-daemonset", "mpi-operator-deployment-mpi-operator")
CONTROLLERS = ("queue-controller", "cluster-autoscaler-deployment")
MORE = {
    "name": "more",
    "launcher": "torchrun",
    "pool": "train",
    "workers": 1,
    "image": "nobody.example.com/has:1",
    "command": ["x"],
}

PREVIEWS: dict[str, list[Change]] = {
    "a change without effect": [change("platform.manifestMirror", MIRROR, NOTHING)],
    "without plugins": [
        change("platform.devicePlugin", False, deletes("nvidia-device-plugin-daemonset-*")),
        change("platform.efaPlugin", False, deletes("efa-device-plugin-daemonset")),
        change("platform.queueOrder", "bestEffort", updates("queue-cluster-queue")),
        change("platform.idleMinutes", 20, updates("cluster-autoscaler-deployment")),
    ],
    "without an operator": [
        change(
            "platform.mpiOperator",
            False,
            both(deletes("mpi-operator-*"), updates("queue-configuration", "queue-controller"), DESCRIPTION),
        ),
    ],
    "without a queue": [
        change(
            "platform.queue",
            False,
            both(deletes("queue-*", "namespaces-*-queue"), DESCRIPTION, recreates(JOB)),
        ),
    ],
    "without the autoscaler": [
        change(
            "platform.autoscaler",
            False,
            both(
                updates("system", "train"),
                deletes("*-tag-k8s.io/cluster-autoscaler/*", "autoscaler", "autoscaler-*", "cluster-autoscaler-*"),
            ),
        ),
    ],
    "a namespace added, another removed": [
        change(
            "platform.namespaces",
            ["mpi-jobs", "vision"],
            both(
                DESCRIPTION,
                creates("vision-job", "vision-job-*", "namespaces-vision", "namespaces-vision-*", "shared-volume-vision-*"),
                deletes(
                    "research-job", "research-job-*", "namespaces-research", "namespaces-research-*", "shared-volume-research-*"
                ),
            ),
        ),
    ],
    "another registry": [
        change(
            "platform.imageRegistry", "mirror.example.com/all", both(updates(*RUNNING, *CONTROLLERS), DESCRIPTION, recreates(JOB))
        ),
    ],
    "another transport": [change("platform.transport", "tcp", both(DESCRIPTION, recreates(JOB)))],
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
    "an additional job": [change("jobs[1]", MORE, creates("jobs-*-more"), "jobs")],
    "another command of a job": [change("jobs[0].command", ["other.py"], recreates(JOB), "jobs")],
    "no jobs": [change("jobs", REMOVED, deletes(JOB))],
    "no platform": [
        Change(
            "platform.install",
            {"platform.install": False, "jobs": REMOVED},
            deletes(
                *(f"{part}-*" for part in ("nvidia-device-plugin", "efa-device-plugin", "mpi-operator", "queue", "description")),
                *("namespaces-*", "shared-volume-*", "cluster-autoscaler-*", JOB),
            ),
        ),
    ],
}


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    """A local cloud with one real node per system pool; nodes that the autoscaler adds are simulated."""
    found = capability.examine()
    if not found.real_nodes:
        pytest.skip("; ".join(found.missing))
    made = LocalCloud(tmp_path_factory.mktemp("platform") / "cloud")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, NODES, "cpu=1,gpu=0")
        made.start(print, kubernetes=True)
    yield made
    made.stop()


@pytest.fixture(scope="module")
def stack(cloud: LocalCloud) -> LocalStack:
    """The deployed cluster."""
    made = LocalStack(cloud, "platform", DATA)
    made.prepare()
    up = made.run("up")
    assert up.ok, up.output
    return made


@pytest.fixture(scope="module")
def values(stack: LocalStack) -> Values:
    return editing.read(stack)


@pytest.mark.parametrize("name", PREVIEWS)
def test_a_change_affects_exactly_the_expected_resources(name: str, stack: LocalStack, values: Values, tmp_path: Path) -> None:
    changes = PREVIEWS[name]
    changed = editing.with_changes(values, {path: value for one in changes for path, value in one.values.items()})
    if changed["platform"].get("manifestMirror") == MIRROR:
        changed["platform"]["manifestMirror"] = str(shutil.copytree(mirror.ensure(print), tmp_path / "mirror"))
    editing.write(stack, changed)
    preview = stack.run("preview")
    assert preview.ok, preview.output
    assert differences(editing.operations(preview), changes) == ([], [])


def test_up_from_outside_a_private_cluster_reports_the_fix(cloud: LocalCloud, stacks: Path) -> None:
    """The unchanged stack file, which omits the platform, can be deployed from anywhere. With the platform, the error
    message says where to run `up`.
    """
    closed = LocalStack(cloud, "06-closed-network", stacks)
    closed.prepare()
    values = editing.read(closed)
    wanted = editing.with_changes(values, {"platform.install": True})
    editing.write(closed, wanted)
    early = closed.run("preview")
    assert not early.ok and not editing.operations(early)
    assert "platform.install: is true, but" in early.errors[0] and "Set false now, and true when" in early.errors[0]

    editing.write(closed, values)
    up = closed.run("up")
    assert up.ok, up.output
    editing.write(closed, wanted)
    refused = closed.run("up")
    assert not refused.ok
    told = next((error for error in refused.errors if "cannot be reached from here" in error), refused.output)
    assert "run `pulumi up` from inside its network" in told and "set `platform: {install: false}`" in told
    assert not editing.operations(refused), "no operation was started"
