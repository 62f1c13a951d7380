"""The recipes in `images/`, built by buildah from stubs of AWS's images (see tests/images/aws_base.py).

The stubs cannot show that AWS's real images have these paths, that dnf finds the packages, that nccl-tests compiles, or
that GPUs and EFA work.
"""

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from cli.images.builders import Builder
from cli.images.recipes import Recipe, find_recipe, list_every_recipe
from infra.jobs import rank_environment
from infra.jobs.in_pods import build_shell_command
from localcloud.images import build, root
from localcloud.images.catalogue import OPENMPI_4
from tests.amis.test_provisioning import Machine
from tests.images import aws_base
from tests.images.buildah import Buildah, Unusable
from tests.images.pods import LAUNCHER, WORKERS, Job, wait_until_true

pytestmark = pytest.mark.xdist_group("recipes")

SOURCES = {"NCCL_TESTS_SOURCE": "file:///stubs/nccl-tests.tar.gz", "TINI_SOURCE": "file:///stubs/tini"}
RECIPES = ("mpi", "pytorch")
SUM = (
    "from mpi4py import MPI; world = MPI.COMM_WORLD; version = MPI.Get_library_version().split(',')[0]; "
    "print('rank', MPI.Get_processor_name(), world.allreduce(world.rank + 1), version, flush=True)"
)


@pytest.fixture(scope="module")
def work_folder() -> Iterator[Path]:
    """A folder in memory if possible, because buildah copies the whole root for each container.

    buildah derives image names from this path, and rejects some of the names that `tempfile` generates, such as `-_`.
    """
    memory = Path("/dev/shm")
    folder = (memory if memory.is_dir() else Path(tempfile.gettempdir())) / f"gpumpi-recipes-{uuid4().hex}"
    folder.mkdir(mode=0o700)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def buildah(work_folder: Path) -> Buildah:
    try:
        return Buildah(work_folder)
    except Unusable as reason:
        pytest.skip(f"not run: {reason}")


@dataclass
class Context:
    """Everything needed to build a recipe from stubs."""

    recipe: Recipe
    buildah: Buildah
    folder: Path
    stubs: Path
    """Root file system of the base image."""
    base: str

    def build(self, tag: str, base: str | None = None) -> "tuple[int, str]":
        arguments = {"BASE": base or self.base, **SOURCES}
        _, *command = Builder("buildah").build_command(self.folder, self.recipe.dockerfile, tag, arguments)
        done = self.buildah.run(*command)
        return done.returncode, done.stdout + done.stderr


def _create_context(name: str, work: Path, buildah: Buildah) -> Context:
    stubs, folder, layout = (work / f"{name}-{kind}" for kind in ("stubs", "context", "layout"))
    aws_base.create_base_stub(stubs, name)
    aws_base.write_image(stubs, name, layout)
    base = buildah.run_checked("pull", f"oci:{layout}").splitlines()[-1]
    buildah.run_checked("tag", base, f"localhost/aws-{name}:1")
    buildah.require_commands(base)
    recipe = find_recipe(name)
    recipe.write_build_context(folder)
    aws_base.pin_stubs(folder, stubs)
    return Context(recipe, buildah, folder, stubs, f"localhost/aws-{name}:1")


@dataclass
class Built:
    recipe: Recipe
    root: Path
    settings: dict[str, Any]
    output: str

    def read_text(self, path: str) -> str:
        return (self.root / path).read_text()

    @property
    def environment(self) -> dict[str, str]:
        return dict(entry.split("=", 1) for entry in self.settings["Env"])

    def run(self, command: str) -> str:
        """Run a shell command as root with the environment variables of a container."""
        done = root.run_in_root(self.root, ["/bin/bash", "-c", command], self.environment, self.root)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


class Workshop:
    """Builds each recipe once. Tests run in random order, so both images are kept until the last test."""

    def __init__(self, work: Path, buildah: Buildah, stack: ExitStack) -> None:
        self._stack = stack
        self.context = cache(lambda name: _create_context(name, work, buildah))
        self.built = cache(self._build_image)
        self.job = cache(self._start_job)

    def _build_image(self, name: str) -> Built:
        context = self.context(name)
        code, output = context.build(f"{name}:1")
        assert code == 0, output
        folder = self._stack.enter_context(context.buildah.mount_image(f"localhost/{name}:1"))
        return Built(context.recipe, folder, context.buildah.inspect_image(f"localhost/{name}:1"), output)

    def _start_job(self, name: str) -> Job:
        pods = Job(self.built(name).root)
        self._stack.callback(pods.stop)
        return pods


@pytest.fixture(scope="module")
def workshop(work_folder: Path, buildah: Buildah) -> Iterator[Workshop]:
    with ExitStack() as stack:
        yield Workshop(work_folder, buildah, stack)


@pytest.fixture(params=["mpi", pytest.param("pytorch", marks=pytest.mark.mission_only)])
def recipe_name(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


@pytest.fixture
def context(workshop: Workshop, recipe_name: str) -> Context:
    try:
        return workshop.context(recipe_name)
    except Unusable as reason:
        pytest.skip(f"not run: {reason}")


@pytest.fixture
def built_image(workshop: Workshop, context: Context) -> Built:
    return workshop.built(context.recipe.name)


@pytest.fixture
def job(workshop: Workshop, context: Context) -> Job:
    return workshop.job(context.recipe.name)


def test_every_recipe_is_tested() -> None:
    """`test_provisioners.py` compares `openmpi` with the local cloud's images, which run the same provisioners."""
    assert tuple(recipe.name for recipe in list_every_recipe()) == ("mpi", "openmpi", "pytorch")


def test_the_build_prints_what_has_not_been_verified(built_image: Built) -> None:
    assert f"NOT VERIFIED: the base localhost/aws-{built_image.recipe.name}:1 is a tag, which AWS moves" in built_image.output
    assert "NOT VERIFIED: this recipe was written from the sources of AWS's images" in built_image.output


def test_the_image_has_the_same_entrypoint_as_the_other_job_images(built_image: Built) -> None:
    for key in ("Entrypoint", "Cmd", "User", "WorkingDir"):
        assert built_image.settings[key] == OPENMPI_4.settings()[key]
    assert built_image.run("/usr/bin/tini --version").startswith("tini version")
    assert "mpiuser:x:1000:1000::/home/mpiuser:/bin/bash" in built_image.read_text("etc/passwd").splitlines()
    assert re.search(r"^mpiuser:\*:", built_image.read_text("etc/shadow"), re.MULTILINE), "sshd rejects locked users"


def test_the_image_has_no_keys_wrappers_or_settings_from_its_aws_base_image(built_image: Built) -> None:
    assert not (built_image.root / "root/.ssh").exists(), "the key pair that all copies of the base share"
    assert list((built_image.root / "etc/ssh").glob("ssh_host_*")) == []
    assert built_image.read_text("etc/bashrc") == "# /etc/bashrc\n"
    assert built_image.read_text("root/.bashrc") == ""
    assert not (built_image.root / "usr/local/bin/deep_learning_container.py").exists()
    assert "mpirun.real (Open MPI)" in built_image.read_text("opt/amazon/openmpi/bin/mpirun"), (
        "the wrapper with --allow-run-as-root"
    )
    assert not (built_image.root / "opt/amazon/openmpi/bin/mpirun.real").exists()
    assert built_image.read_text("opt/amazon/openmpi/etc/openmpi-mca-params.conf") == "# a comment\n"
    assert "StrictHostKeyChecking no" not in built_image.read_text("etc/ssh/ssh_config")
    assert not (built_image.root / "tmp/amis").exists()


def test_nccl_defaults_in_the_image_match_those_of_jobs(built_image: Built) -> None:
    pairs = [f"{name}={value}\n" for name, value in rank_environment._SOCKETS.items()]
    assert built_image.read_text("etc/nccl.conf") == "".join(pairs)


def test_only_open_mpi_5_is_on_the_search_paths(built_image: Built) -> None:
    assert "/opt/amazon/openmpi/" not in built_image.environment["PATH"]
    assert built_image.environment["LD_LIBRARY_PATH"] == ""
    assert built_image.run("command -v mpirun") == "/opt/mpi/bin/mpirun"
    assert built_image.run("readlink -f /opt/mpi") == "/opt/amazon/openmpi5"
    assert built_image.run("bash -lc 'command -v mpirun'") == "/opt/mpi/bin/mpirun", "a login shell reads AWS's profile"
    assert built_image.run("ldconfig -p | awk '$1 == \"libmpi.so.40\" { print $NF }'") == "/opt/mpi/lib64/libmpi.so.40"


def test_the_linker_finds_efa_cuda_and_one_nccl_without_environment_variables(built_image: Built) -> None:
    nccl = ["/opt/venv/lib/python3.11/site-packages/nvidia/nccl/lib"] if built_image.recipe.name == "pytorch" else []
    assert built_image.read_text("etc/ld.so.conf.d/gpumpi.conf").split() == [
        "/opt/amazon/efa/lib64",
        "/opt/amazon/ofi-nccl/lib64",
        "/usr/local/cuda/lib64",
        "/usr/local/lib",
        *nccl,
    ]
    assert built_image.read_text("etc/ld.so.conf.d/000_efa.conf") == "/opt/amazon/efa/lib64\n", "without Open MPI 4.1"
    library = built_image.run("ldconfig -p | awk '$1 == \"libnccl.so.2\" { print $NF }'")
    assert library == "/" + aws_base.NCCL[built_image.recipe.name].replace(
        "usr/lib64", "lib64" if library.startswith("/lib64") else "usr/lib64"
    )


def test_nccl_tests_are_compiled_for_open_mpi_5(built_image: Built) -> None:
    asked = built_image.read_text("stubs/make.log").split()
    assert {"MPI=1", "MPI_HOME=/opt/mpi", "CUDA_HOME=/usr/local/cuda", "CXXSTD=-std=c++17"} <= set(asked)
    if built_image.recipe.name == "pytorch":  # NVIDIA's wheel has no libnccl.so
        folder = "/opt/venv/lib/python3.11/site-packages/nvidia/nccl"
        assert built_image.read_text("stubs/nccl.log").splitlines() == [f"{folder}/lib/libnccl.so.2", f"{folder}/include"]
    else:
        assert "NCCL_HOME=/usr" in asked
    assert built_image.run("readlink -f /usr/local/bin/all_reduce_perf") == "/opt/nccl-tests/all_reduce_perf", "not AWS's own"


def test_dnf_installs_only_amazon_linux_packages(built_image: Built) -> None:
    asked = set(built_image.read_text("stubs/dnf.log").split())
    assert {"openssh-server", "openssh-clients", "shadow-utils", "util-linux"} <= asked <= set(aws_base.AMAZON_LINUX)


def test_ranks_on_both_workers_compute_a_sum(job: Job) -> None:
    hosts = ",".join(f"{worker}:2" for worker in WORKERS)
    done = job.launcher.run("mpirun", "-n", "4", "--host", hosts, "python3", "-c", SUM)
    ranks = [line.split(maxsplit=3)[1:] for line in done.stdout.splitlines() if line.startswith("rank")]
    assert sorted(ranks) == [[worker, "10", f"Open MPI v{read_mpi_version(job)}"] for worker in WORKERS for _ in range(2)], (
        done.stderr
    )
    assert job.launcher.run("sh", "-c", "ls /tmp/telemetry").returncode, "a login would start AWS's telemetry"


def read_mpi_version(job: Job) -> str:
    return job.launcher.run("mpirun", "--version").stdout.split()[3]


def test_commands_over_ssh_use_python_and_libraries_of_the_image(job: Job, built_image: Built) -> None:
    prefix, modules = ("/opt/venv", "mpi4py, torch") if built_image.recipe.name == "pytorch" else ("/usr", "mpi4py")
    done = job.launcher.run("ssh", WORKERS[0], f"python3 -c 'import sys, {modules}; print(sys.prefix)'")
    assert done.stdout == f"{prefix}\n", done.stderr
    assert job.launcher.run("ssh", WORKERS[0], "all_reduce_perf").stdout == "all_reduce\n"
    (mpi,) = re.findall(
        r"libmpi\.so\.40 => (\S+)", job.launcher.run("ssh", WORKERS[0], "ldd $(command -v all_reduce_perf)").stdout
    )
    assert mpi.startswith("/opt/mpi/")


def test_sshd_starts_with_the_arguments_used_in_job_pods(job: Job) -> None:
    """The test starts sshd in the launcher's pod, because the workers already run it."""
    server = job.launcher.start(*build_shell_command("serve.sh"))
    wait_until_true(lambda: job.pods[WORKERS[0]].run("ssh", LAUNCHER, "true").returncode == 0 or server.poll() is not None)
    output = job.pods[WORKERS[0]].run("ssh", LAUNCHER, "id -u; command -v mpirun").stdout.split()
    server.terminate()
    server.wait()
    assert output == ["1000", "/usr/local/bin/mpirun"]


@pytest.mark.parametrize(
    ("removed", "error"),
    [
        ("/opt/amazon/openmpi5/bin/mpirun", "lacks /opt/amazon/openmpi5/bin/mpirun"),
        ("/opt/amazon/efa/lib64/libfabric.so.1", "lacks /opt/amazon/efa/lib*/libfabric.so.1"),
        ("/opt/amazon/ofi-nccl/lib64/*", "lacks /opt/amazon/ofi-nccl/lib*/libnccl-net-ofi.so"),
        ("/usr/local/cuda/bin/nvcc", "lacks /usr/local/cuda/bin/nvcc"),
        ("/usr/local/lib/libgdrapi.so.2", "lacks /usr/local/lib/libgdrapi.so*"),
        ("/usr/lib64/libnccl.so.2 /opt/venv/lib/python3*/site-packages/nvidia", "lacks NCCL"),
        ("/opt/amazon/efa_installed_packages", "names no installer version"),
    ],
)
def test_a_base_image_with_a_missing_component_is_rejected(context: Context, tmp_path: Path, removed: str, error: str) -> None:
    machine = Machine(tmp_path / "layer", [context.stubs])
    machine.layer.mkdir()
    machine.run_checked("check-base-image.sh", "a@sha256:0")
    machine.run_checked("/bin/sh", "-c", f"rm -rf {removed}")
    failed = machine.run("check-base-image.sh", "a@sha256:0")
    assert failed.returncode == 1
    assert error in failed.stderr


def test_a_build_fails_if_the_base_image_lacks_a_component(context: Context) -> None:
    container = context.buildah.run_checked("from", context.base)
    lost = "opt/amazon/openmpi5/bin/mpirun" if context.recipe.name == "mpi" else aws_base.NCCL["pytorch"]
    (Path(context.buildah.run_checked("mount", container)) / lost).unlink()
    context.buildah.run_checked("commit", "--rm", container, f"localhost/incomplete-{context.recipe.name}:1")
    code, output = context.build("never:1", f"localhost/incomplete-{context.recipe.name}:1")
    assert code != 0
    assert f"the base localhost/incomplete-{context.recipe.name}:1 lacks" in output


@pytest.mark.parametrize(
    ("fault", "step", "error"),
    [
        ("touch /stubs/no-cuda", "select-openmpi.sh", "Open MPI in /opt/amazon/openmpi5 is not CUDA-aware"),
        (
            "rm /opt/amazon/ofi-nccl/lib64/libnccl-net.so",
            "configure-image-libraries.sh",
            "the linker does not find libnccl-net.so",
        ),
        ("rm /usr/local/cuda/lib64/libcudart.so", "configure-image-libraries.sh", "the linker does not find libcudart.so"),
        ("cp /opt/amazon/openmpi/lib64/libmpi.so.40 /usr/local/lib", "configure-image-libraries.sh", "finds two of libmpi.so.40"),
        (
            "cp $(find /usr/lib64/ /opt/venv -name libnccl.so.2 | head -1) /usr/local/lib",
            "configure-image-libraries.sh",
            "two of libnccl",
        ),
        ("mkdir ~/.ssh; touch ~/.ssh/id_rsa", "validate-job-image.sh", "root has SSH keys"),
        ("echo source bash_telemetry.sh >>/etc/bashrc", "validate-job-image.sh", "/etc/bashrc starts telemetry"),
        ("rm /etc/profile.d/zz-gpumpi-mpi.sh", "validate-job-image.sh", "mpirun in a login shell: expected /opt/mpi/bin/mpirun"),
        ("rm /etc/ld.so.conf.d/mpi.conf; ldconfig", "validate-job-image.sh", "all_reduce_perf does not find its libraries"),
        ("echo Nonsense yes >>/home/mpiuser/.sshd_config", "validate-job-image.sh", "sshd as mpiuser: expected configured"),
        ("usermod --non-unique --uid 1001 mpiuser", "validate-job-image.sh", "not 1000:1000"),
        ("rm /usr/bin/tini", "validate-job-image.sh", "tini: expected tini version"),
        ("find / -xdev -name mpi4py -type d | xargs rm -rf", "validate-job-image.sh", "Python's module mpi4py"),
    ],
)
def test_a_build_step_fails_instead_of_producing_an_unusable_image(
    built_image: Built, tmp_path: Path, fault: str, step: str, error: str
) -> None:
    machine = Machine(tmp_path / "layer", [built_image.root])
    machine.layer.mkdir()
    machine.run_checked(step)
    machine.run_checked("/bin/bash", "-c", fault)
    failed = machine.run(step)
    assert failed.returncode == 1, failed.stdout
    assert error in failed.stderr


@pytest.mark.parametrize(
    ("variable", "error"),
    [
        ({"LD_LIBRARY_PATH": "/opt/amazon/openmpi/lib64"}, "LD_LIBRARY_PATH is set (/opt/amazon/openmpi/lib64)"),
        ({"OPAL_PREFIX": "/opt/amazon/openmpi"}, "OPAL_PREFIX is set (/opt/amazon/openmpi)"),
        ({"PYTHON_MODULES": "mpi4py nowhere"}, "Python's module nowhere: expected imported nowhere"),
    ],
)
def test_environment_variables_of_another_mpi_fail_the_build(
    built_image: Built, tmp_path: Path, variable: dict[str, str], error: str
) -> None:
    machine = Machine(tmp_path / "layer", [built_image.root])
    machine.layer.mkdir()
    failed = machine.run("validate-job-image.sh", **variable)
    assert failed.returncode == 1
    assert error in failed.stderr


def test_checksums_of_tini_and_nccl_tests_are_verified(context: Context, tmp_path: Path) -> None:
    machine = Machine(tmp_path / "layer", [context.stubs])
    machine.layer.mkdir()
    failed = machine.run("install-tini.sh", **SOURCES)
    assert failed.returncode == 1
    assert "is pinned" in failed.stderr


def test_downloads_of_a_recipe_are_pinned() -> None:
    pins = build.read_pinned_versions()
    for key in ("tini_static_sha256", "nccl_tests_sha256"):
        assert re.fullmatch(r"[0-9a-f]{64}", pins[key])
