"""Mount paths of shared file systems and of volumes in jobs: what a path would hide decides."""

from typing import Any

import pytest

from infra import validation
from infra.jobs.reading import JobRefused, validate
from infra.settings.stack import Settings
from tests.pure.job_world import cluster, values
from tests.pure.mistakes.mount_paths import ACCEPTED, HOME, PROGRAMS, REFUSED, SYSTEM
from tests.pure.world import plain_settings, settings

FIX = "Use a path such as /shared."


def shown(path: str) -> str:
    return '"' + path.replace("\n", "\\n") + '"'


def stacks(user: str = "mpiuser", **storage: Any) -> list[Settings]:
    """Return an EKS and an EC2 stack with these file systems; the EC2 cluster has this login user."""
    return [settings(storage=storage), plain_settings(target={"user": user}, storage=storage)]


def problems(stack: Settings) -> list[str]:
    return [str(problem) for problem in validation.check(stack)]


@pytest.mark.parametrize(("path", "reason"), REFUSED)
def test_a_shared_file_system_that_would_hide_what_nodes_need_is_refused(path: str, reason: str) -> None:
    written = shown(path.rstrip("/") or path)
    for stack in stacks(efs={"mountPath": path}):
        assert problems(stack) == [f"storage.efs.mountPath: {written} {reason}. {FIX}"]
    for stack in stacks(efs="none", fsx={"mountPath": path}):
        assert problems(stack) == [f"storage.fsx.mountPath: {written} {reason}. {FIX}"]


@pytest.mark.parametrize("path", ACCEPTED)
def test_a_shared_file_system_that_hides_nothing_is_accepted(path: str) -> None:
    for stack in [*stacks(efs={"mountPath": path}), *stacks(efs="none", fsx={"mountPath": path})]:
        assert problems(stack) == []


def test_the_home_of_the_login_user_cannot_be_a_mount_path() -> None:
    eks, ec2 = stacks("shared", efs={"mountPath": "/home/shared"})
    assert problems(eks) == []
    assert problems(ec2) == [f'storage.efs.mountPath: "/home/shared" {HOME}shared. {FIX}']


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
def test_a_volume_that_would_hide_what_a_job_needs_is_refused(path: str, reason: str) -> None:
    fix = f'"{path}" {reason}. Use a path such as /data.'
    own = {"podOverrides": {"worker": {"volumes": [{"name": "own", "mountPath": path, "emptyDir": {}}]}}}
    with pytest.raises(JobRefused) as claim:
        validate(values(volumes=[{"name": "mine", "mountPath": path}]), cluster())
    with pytest.raises(JobRefused) as volume:
        validate(values(**own), cluster())
    assert str(claim.value) == f"volumes[0].mountPath: {fix}"
    assert str(volume.value) == f"podOverrides.worker.volumes[0].mountPath: {fix}"


def test_a_job_decides_which_home_its_volumes_must_not_hide() -> None:
    with pytest.raises(JobRefused) as refused:
        validate(values(home="/users/ada", volumes=[{"name": "mine", "mountPath": "/users"}]), cluster())
    assert (
        str(refused.value) == 'volumes[0].mountPath: "/users" would hide the home directory /users/ada. Use a path such as /data.'
    )
    for more in ({"home": "/users/ada"}, {"launcher": "torchrun"}):
        validate(values(**more, volumes=[{"name": "mine", "mountPath": "/home/mpiuser"}]), cluster())


@pytest.mark.parametrize("path", ["/home/shared", "/var/data", "/opt/models", "/root"])
def test_a_volume_that_hides_nothing_a_job_needs_is_accepted(path: str) -> None:
    validate(values(volumes=[{"name": "mine", "mountPath": path}]), cluster())
