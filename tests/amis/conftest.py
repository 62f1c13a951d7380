"""The provisioned machine that the AMI tests share."""

import json
import shutil
from collections.abc import Iterator

import pytest

from localcloud.hosts import ami, package_registries, roots
from tests.amis.machine import BUILT, STEPS, Machine


@pytest.fixture(scope="session")
def provisioned_machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine on which all steps of the EC2 cluster AMI have run, except those that local builds skip.

    The compiled Open MPI is cached across test runs.
    """
    layer = tmp_path_factory.mktemp("ami") / "layer"
    built_cache = ami.cache_folder() / "built"
    built_cache.mkdir(parents=True, exist_ok=True)
    settings = {
        "SKIP": json.dumps(ami.SKIPPED),
        "OPENMPI_ORIGIN": "debian",
        "OPENMPI_SERIES": "4",
        "OPENMPI_FLAGS": ami.OPENMPI_FLAGS,
        "DEBIAN_MIRROR": package_registries.find_debian_mirror(),
        "BUILD_CACHE": f"/{BUILT}",
    }
    machine = Machine(layer, [roots.ensure_bare_root(print)], settings)
    with ami.hold_build_lock():
        shutil.copytree(built_cache, layer / BUILT)
        machine.run_checked("run-provisioners.sh", *STEPS)
        shutil.copytree(layer / BUILT, built_cache, dirs_exist_ok=True)
    yield machine
    shutil.rmtree(layer)
