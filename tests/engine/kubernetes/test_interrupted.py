"""Readiness waits that time out or are canceled, and requests canceled in flight, with the real Pulumi engine."""

import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from infra.recovery.recover_stack import recover
from testkit.control_plane import ControlPlane, Objects
from testkit.kubernetes_projects import KubernetesProject
from testkit.waiting import wait_until
from tests.engine.kubernetes.holding_proxy import HoldingProxy
from tests.engine.kubernetes.test_waits import TRUE_FOR_READY

pytestmark = pytest.mark.checkpoints

POD = """
    k8s.core.v1.Pod(
        "slow", metadata={"name": "slow"}, spec={"containers": [{"name": "a", "image": "a"}]},
        opts=opts.merge(pulumi.ResourceOptions(custom_timeouts=pulumi.CustomTimeouts(create=config.get("patience") or "10m"))))
"""


def test_an_object_that_did_not_become_ready_stays_in_the_state_and_the_next_update_continues(
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
    with kube.project.run_in_background("up") as (process, _):
        wait_until(lambda: objects.get("pods", "slow"))
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    assert process.returncode != 0
    assert 'Resource operation was cancelled for "slow"' in output
    assert kube.state()["slow"]["initErrors"]
    assert kube.destroy().ok


MAPS = """
    for name in ("held", "foreign"):
        k8s.core.v1.ConfigMap(name, metadata={"name": name}, data={"a": "b"}, opts=opts)
"""


@pytest.fixture
def proxy(control_plane: ControlPlane) -> Iterator[HoldingProxy]:
    with HoldingProxy(control_plane, "held") as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield running
        running.release.set()
        running.shutdown()


def test_recover_adopts_an_object_whose_create_request_was_canceled(
    kube: KubernetesProject, objects: Objects, proxy: HoldingProxy
) -> None:
    objects.create("configmaps", {"metadata": {"name": "foreign"}, "data": {"a": "b"}})
    kube.use_kubeconfig(proxy.kubeconfig())
    kube.write(MAPS)
    with kube.project.run_in_background("up") as (process, _):
        assert proxy.held.wait(60)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    assert not proxy.release.is_set(), "the response is still held back"
    proxy.release.set()
    assert "was not successfully created by the Kubernetes API server" in output and "context canceled" in output
    assert objects.get("configmaps", "held") and "held" not in kube.state()
    assert 'configmaps "held" already exists' in kube.up().output

    lines: list[str] = []
    recovered = recover(kube.project.run_pulumi, kube.project.stack, reject_client, lines.append)
    assert recovered.found == [f"held ({objects.namespace}/held)"]
    assert lines[-1].startswith(f"foreign ({objects.namespace}/foreign) exists, but no failed update of this stack created it;")
    assert "foreign" not in kube.state()
    objects.delete("configmaps", "foreign")
    again = kube.up()
    assert again.ok, again.output
    assert again.changes == {"create": 1}, "the object `held` matches the program"
    assert recover(kube.project.run_pulumi, kube.project.stack, reject_client, lines.append).found == []


def reject_client(region: str) -> Any:
    raise AssertionError("no AWS resource was interrupted")
