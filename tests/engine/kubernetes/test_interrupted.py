"""Waits for readiness that time out or are canceled, with the real Pulumi engine."""

import signal

import pytest

from testkit.control_plane import Objects
from testkit.kubernetes_projects import KubernetesProject
from testkit.waiting import wait_until
from tests.engine.kubernetes.test_waits import TRUE_FOR_READY

pytestmark = pytest.mark.checkpoints

POD = """
    k8s.core.v1.Pod(
        "slow", metadata={"name": "slow"}, spec={"containers": [{"name": "a", "image": "a"}]},
        opts=opts.merge(pulumi.ResourceOptions(custom_timeouts=pulumi.CustomTimeouts(create=config.get("patience") or "10m"))))
"""


def test_an_object_that_did_not_become_ready_is_in_the_state_and_the_next_update_continues(
    kube: KubernetesProject, objects: Objects
) -> None:
    kube.project.configure("patience", "2s")
    up = kube.up(POD)
    assert not up.ok
    assert "'slow' timed out waiting to be Ready" in up.output
    slow = kube.state()["slow"]
    assert slow["id"] == f"{objects.namespace}/slow"
    assert slow["initErrors"]
    objects.set_status("pods", "slow", phase="Running", conditions=TRUE_FOR_READY)
    again = kube.up()
    assert again.ok, again.output
    assert "initErrors" not in kube.state()["slow"]


def test_an_interrupted_update_stops_waiting_and_keeps_created_objects(kube: KubernetesProject, objects: Objects) -> None:
    kube.write(POD)
    with kube.project.running("up") as (process, _):
        wait_until(lambda: objects.get("pods", "slow"))
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    assert process.returncode != 0
    assert 'Resource operation was cancelled for "slow"' in output
    assert kube.state()["slow"]["initErrors"]
    assert kube.destroy().ok
