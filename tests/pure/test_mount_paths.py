"""Mount paths of shared file systems and of volumes in jobs: paths that would hide something are rejected."""

from typing import Any

import pytest

from infra import validation
from infra.jobs.reading import JobRefused, validate_job
from infra.settings.stack import Settings
from tests.pure.job_world import make_cluster, make_job_values
from tests.pure.mistakes.mount_paths import ACCEPTED, HOME, PROGRAMS, REFUSED, SYSTEM
from tests.pure.world import ec2_settings, settings

FIX = "Use a path such as /shared."


def quote_path(path: str) -> str:
    return '"' + path.replace("\n", "\\n") + '"'


def make_stacks(user: str = "mpiuser", **storage: Any) -> list[Settings]:
    """Return an EKS and an EC2 stack with these file systems; the EC2 cluster has this login user."""
    return [settings(storage=storage), ec2_settings(target={"user": user}, storage=storage)]


def find_problems(stack: Settings) -> list[str]:
    return [str(problem) for problem in validation.run_rules(stack)]


@pytest.mark.parametrize(("path", "reason"), REFUSED)
def test_mount_path_that_would_hide_directories_of_the_nodes_is_refused(path: str, reason: str) -> None:
    written = quote_path(path.rstrip("/") or path)
    for stack in make_stacks(efs={"mountPath": path}):
        assert find_problems(stack) == [f"storage.efs.mountPath: {written} {reason}. {FIX}"]
    for stack in make_stacks(efs="none", fsx={"mountPath": path}):
        assert find_problems(stack) == [f"storage.fsx.mountPath: {written} {reason}. {FIX}"]


@pytest.mark.parametrize("path", ACCEPTED)
def test_mount_path_that_hides_nothing_is_accepted(path: str) -> None:
    for stack in [*make_stacks(efs={"mountPath": path}), *make_stacks(efs="none", fsx={"mountPath": path})]:
        assert find_problems(stack) == []


def test_home_of_the_login_user_is_refused_as_mount_path() -> None:
    eks, ec2 = make_stacks("shared", efs={"mountPath": "/home/shared"})
    assert find_problems(eks) == []
    assert find_problems(ec2) == [f'storage.efs.mountPath: "/home/shared" {HOME}shared. {FIX}']


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/home", f"{HOME}mpiuser"),
        ("/home/mpiuser/", f"{HOME}mpiuser"),
        ("/home/mpiuser/.ssh", "would hide the SSH configuration in /home/mpiuser"),
        ("/opt/amazon/efa", PROGRAMS),
        ("/libx32", SYSTEM),
        ("/var", "would hide /var/lib/containerd"),
        ("/keys", "is used by the pods of jobs"),
    ],
)
def test_volume_that_would_hide_directories_of_the_job_is_refused(path: str, reason: str) -> None:
    fix = f'"{path}" {reason}. Use a path such as /data.'
    own = {"podOverrides": {"worker": {"volumes": [{"name": "own", "mountPath": path, "emptyDir": {}}]}}}
    with pytest.raises(JobRefused) as claim:
        validate_job(make_job_values(volumes=[{"name": "mine", "mountPath": path}]), make_cluster())
    with pytest.raises(JobRefused) as volume:
        validate_job(make_job_values(**own), make_cluster())
    assert str(claim.value) == f"volumes[0].mountPath: {fix}"
    assert str(volume.value) == f"podOverrides.worker.volumes[0].mountPath: {fix}"


def test_volumes_must_not_hide_the_home_directory_set_by_the_job() -> None:
    with pytest.raises(JobRefused) as refused:
        validate_job(make_job_values(home="/users/ada", volumes=[{"name": "mine", "mountPath": "/users"}]), make_cluster())
    assert (
        str(refused.value) == 'volumes[0].mountPath: "/users" would hide the home directory /users/ada. Use a path such as /data.'
    )
    for more in ({"home": "/users/ada"}, {"launcher": "torchrun"}):
        validate_job(make_job_values(**more, volumes=[{"name": "mine", "mountPath": "/home/mpiuser"}]), make_cluster())


@pytest.mark.parametrize("path", ["/home/shared", "/var/data", "/opt/models", "/root"])
def test_a_volume_that_hides_nothing_a_job_needs_is_accepted(path: str) -> None:
    validate_job(make_job_values(volumes=[{"name": "mine", "mountPath": path}]), make_cluster())
