"""An API server for tests of the Kubernetes provider emulator: one server for all tests, one namespace per test."""

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcloud.engine.kubernetes.cluster import Cluster
from localcloud.engine.kubernetes.settings import Settings
from localcloud.tools.build import BuildError
from testkit.control_plane import ControlPlane, Objects
from testkit.kubernetes_projects import KubernetesProject
from testkit.projects import Project
from tests.engine.kubernetes.waits_world import Maker


@pytest.fixture(scope="package")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    running = ControlPlane(tmp_path_factory.mktemp("plane"))
    try:
        running.start()
    except BuildError as error:
        pytest.skip(str(error))
    yield running
    running.stop()


@pytest.fixture
def objects(control_plane: ControlPlane) -> Iterator[Objects]:
    """The test's namespace, accessed directly instead of through the provider."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    control_plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    yield Objects(control_plane, name)
    control_plane.request("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture
def cluster(control_plane: ControlPlane, objects: Objects) -> Cluster:
    """The test's namespace, accessed through the provider."""
    return Cluster(Settings(kubeconfig=control_plane.kubeconfig(), namespace=objects.namespace), os.environ)


@pytest.fixture
def kube(project: Project, control_plane: ControlPlane, objects: Objects, tmp_path: Path) -> KubernetesProject:
    """A project whose programs deploy to the test's namespace."""
    kubernetes_project = KubernetesProject(project, objects)
    kubernetes_project.prepare(control_plane.kubeconfig())
    return kubernetes_project


@pytest.fixture
def maker(cluster: Cluster, objects: Objects) -> Iterator[Maker]:
    new_maker = Maker(cluster, objects)
    yield new_maker
    new_maker.gone.set()
    new_maker.pool.shutdown()
