"""The Kubernetes provider as a plugin that the engine starts and stops, as with `local start --providers official`.

The plugin is simulated: our emulator under the official name. The tests show how the engine handles a plugin, not how
the official plugin behaves.
"""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcloud.instance import LocalCloud
from testkit import simulated_plugins
from testkit.control_plane import ControlPlane, Objects
from testkit.kubernetes_projects import KubernetesProject
from testkit.projects import Project
from testkit.waiting import wait_until
from tests.engine.kubernetes.test_interrupted import POD


@pytest.fixture
def kube(control_plane: ControlPlane, objects: Objects, tmp_path: Path) -> Iterator[KubernetesProject]:
    cloud = LocalCloud(tmp_path / "cloud")
    cloud.start(print, plugins={"kubernetes": simulated_plugins.install_plugin(tmp_path, "kubernetes")})
    kubernetes_project = KubernetesProject(Project(cloud, tmp_path / "project"), objects)
    kubernetes_project.prepare(control_plane.kubeconfig())
    yield kubernetes_project
    cloud.stop()


def test_the_engine_starts_an_installed_plugin_cancels_its_waits_and_stops_the_plugin(
    kube: KubernetesProject, objects: Objects
) -> None:
    assert [server.name for server in kube.project.cloud.servers()] == ["aws", "provider"]
    kube.write(POD)
    with kube.project.run_in_background("up") as (process, _):
        wait_until(lambda: objects.get("pods", "slow"))
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    assert 'Resource operation was cancelled for "slow"' in output
    assert kube.state()["slow"]["initErrors"], "the object is in the state"
    assert kube.destroy().ok
    assert objects.list_names("pods") == []
