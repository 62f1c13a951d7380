"""What docs/guides/jobs.md promises to a user's commands, checked for every container that runs them, with every launcher."""

from collections.abc import Callable
from typing import Any

import pytest

from infra.jobs.placed import Storage
from infra.jobs.render import LAUNCHERS
from tests.pure.job_world import EVERY_LAUNCHER, render_objects

SETTINGS = {"name": "settings", "mountPath": "/etc/train", "readOnly": True, "configMap": {"name": "settings"}}
KEY = {"name": "key", "mountPath": "/key", "subPath": "a", "secret": {"secretName": "key"}}
MAINTENANCE = {"key": "maintenance", "operator": "Exists", "effect": "NoSchedule"}
AFFINITY = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}
every_launcher = pytest.mark.parametrize("launcher", EVERY_LAUNCHER)
Container = tuple[dict[str, Any], dict[str, Any], dict[str, Any]]
"""Metadata of a pod, its spec, and one of its containers."""


def list_pod_templates(launcher: str, storage: Storage | None = None, **more: Any) -> list[dict[str, Any]]:
    """Return the pod templates of a job with `setup`."""
    values = {"command": ["run-ranks"], "setup": ["run-setup"], **EVERY_LAUNCHER[launcher], **more}
    specs = [piece.get("spec", {}) for piece in render_objects(storage=storage, **values)]
    replicas = [replica["template"] for spec in specs for replica in spec.get("mpiReplicaSpecs", {}).values()]
    return [*replicas, *(spec["template"] for spec in specs if "template" in spec)]


def list_containers(launcher: str, storage: Storage | None = None, **more: Any) -> list[Container]:
    """Return all containers of a job with `setup`."""
    return [
        (template["metadata"], template["spec"], container)
        for template in list_pod_templates(launcher, storage, **more)
        for container in (*template["spec"].get("initContainers", ()), *template["spec"]["containers"])
    ]


def find_user_containers(launcher: str, storage: Storage | None = None, **more: Any) -> dict[str, Container]:
    """Return the containers that run the user's commands, and the workers, whose sshd starts ranks, by name."""
    return {
        container["name"]: (metadata, pod, container)
        for metadata, pod, container in list_containers(launcher, storage, **more)
        if {"run-ranks", "run-setup"} & set(container["command"]) or container["name"] == "worker"
    }


def list_roles(launcher: str) -> tuple[str, ...]:
    return LAUNCHERS[EVERY_LAUNCHER[launcher]["launcher"]].roles


def read_environment(container: dict[str, Any]) -> dict[str, Any]:
    return {variable["name"]: variable.get("value", variable.get("valueFrom")) for variable in container["env"]}


def list_mount_paths(container: dict[str, Any]) -> set[str]:
    return {mount["mountPath"] for mount in container["volumeMounts"]}


SENT = "/shared/.gpumpi/jobs/mpi-jobs/mnist.1/workdir"
PROMISES: dict[str, tuple[dict[str, Any], Storage, Callable[[dict[str, Any], dict[str, Any]], object]]] = {
    "image": ({"image": "r.example.com/t:1"}, Storage(), lambda pod, container: container["image"] == "r.example.com/t:1"),
    "env": ({"env": {"EPOCHS": "3"}}, Storage(), lambda pod, container: read_environment(container)["EPOCHS"] == "3"),
    "secretEnv": (
        {"secretEnv": {"TOKEN": {"name": "login", "key": "token"}}},
        Storage(),
        lambda pod, container: read_environment(container)["TOKEN"] == {"secretKeyRef": {"name": "login", "key": "token"}},
    ),
    "envFrom": (
        {"envFrom": [{"secretRef": {"name": "dataset"}, "prefix": "DATA_"}, {"configMapRef": {"name": "settings"}}]},
        Storage(),
        lambda pod, container: [source.get("prefix") for source in container["envFrom"]] == ["DATA_", None],
    ),
    "workingDir": ({"workingDir": "/shared/code"}, Storage(), lambda pod, container: container["workingDir"] == "/shared/code"),
    "volumes": (
        {"volumes": [{"name": "shared"}, {"name": "scratch.claim", "mountPath": "/scratch"}]},
        Storage(),
        lambda pod, container: {"/shared", "/scratch", "/tmp"} <= list_mount_paths(container),
    ),
    "volumes, by default": ({}, Storage(), lambda pod, container: {"/shared", "/tmp"} <= list_mount_paths(container)),
    "podOverrides.worker.volumes": (
        {"podOverrides": {"worker": {"volumes": [SETTINGS]}}},
        Storage(),
        lambda pod, container: container["name"] == "launcher" or ("/etc/train" in list_mount_paths(container)),
    ),
    "podOverrides.worker.volumes, in the pod": (
        {"podOverrides": {"worker": {"volumes": [SETTINGS]}}},
        Storage(),
        lambda pod, container: (
            container["name"] == "launcher" or {"name": "settings", "configMap": {"name": "settings"}} in pod["volumes"]
        ),
    ),
    "imagePullSecrets": (
        {"imagePullSecrets": ["login"]},
        Storage(),
        lambda pod, container: pod["imagePullSecrets"] == [{"name": "login"}],
    ),
    "writableRoot": (
        {"writableRoot": True},
        Storage(),
        lambda pod, container: container["securityContext"]["readOnlyRootFilesystem"] is False,
    ),
    "home": ({"home": "/home/ada"}, Storage(), lambda pod, container: read_environment(container)["HOME"] == "/home/ada"),
    "workdir on a volume": ({}, Storage(workdir=SENT), lambda pod, container: container["workingDir"] == SENT),
    "workdir in the bucket": (
        {},
        Storage(workdir="/gpumpi/workdir", archive="workdirs/mpi-jobs/0.tar.gz"),
        lambda pod, container: (
            container["workingDir"] in list_mount_paths(container) and pod["initContainers"][0]["name"] == "workdir"
        ),
    ),
    "logs on a volume": (
        {},
        Storage(logs="/shared/logs"),
        lambda pod, container: (
            read_environment(container)["GPUMPI_LOG"] == "/shared/logs/$(GPUMPI_LOG_POD)" and "mkfifo" in container["command"][2]
        ),
    ),
    "logs in CloudWatch": (
        {},
        Storage(log_run="7"),
        lambda pod, container: read_environment(container)["GPUMPI_LOG_STREAM"] == "mpi-jobs/mnist/7/$(GPUMPI_LOG_POD)",
    ),
}
"""Maps a promise in docs/guides/jobs.md to values of the job, what `submit` stores, and the check of each pod and its
container."""


@every_launcher
@pytest.mark.parametrize("promise", PROMISES)
def test_every_container_with_a_user_command_gets_all_user_settings(launcher: str, promise: str) -> None:
    values, storage, is_kept = PROMISES[promise]
    checked = find_user_containers(launcher, storage, **values)
    assert checked.keys() == {*list_roles(launcher), "setup"}
    assert [name for name, (_, pod, container) in checked.items() if not is_kept(pod, container)] == []


@every_launcher
def test_each_mount_refers_to_a_volume_of_its_pod(launcher: str) -> None:
    for values, storage, _ in PROMISES.values():
        for _, pod, container in list_containers(launcher, storage, **values):
            volumes = [volume["name"] for volume in pod["volumes"]]
            assert len(volumes) == len(set(volumes))
            assert {mount["name"] for mount in container["volumeMounts"]} <= set(volumes), container["name"]


@every_launcher
def test_helper_containers_have_no_user_variables_or_secrets(launcher: str) -> None:
    values, archive = {"env": {"EPOCHS": "3"}, "envFrom": [{"secretRef": {"name": "dataset"}}]}, Storage("/w", archive="key")
    secret = {"secretEnv": {"TOKEN": {"name": "login", "key": "token"}}}
    users = find_user_containers(launcher, archive, **values, **secret)
    helpers = [
        container for *_, container in list_containers(launcher, archive, **values, **secret) if container["name"] not in users
    ]
    assert helpers, "each pod unpacks the archive"
    assert [
        container["name"]
        for container in helpers
        if {"EPOCHS", "TOKEN"} & read_environment(container).keys() or "envFrom" in container
    ] == []


@every_launcher
def test_setup_runs_in_its_own_pod_without_ranks(launcher: str) -> None:
    metadata, pod, container = find_user_containers(launcher)["setup"]
    assert [listed["name"] for *_, listed in list_containers(launcher)].count("setup") == 1
    assert (len(pod["containers"]), metadata["labels"]["gpumpi.io/role"]) == (1, "setup")
    assert "nvidia.com/gpu" not in container["resources"]["limits"]


@every_launcher
def test_setup_mounts_the_volumes_of_every_role(launcher: str) -> None:
    has_launcher = "launcher" in list_roles(launcher)
    roles = {"worker": {"volumes": [SETTINGS]}, **({"launcher": {"volumes": [KEY]}} if has_launcher else {})}
    added = {
        name: {mount["mountPath"]: mount.get("subPath") for mount in container["volumeMounts"]}
        for name, (_, _, container) in find_user_containers(launcher, podOverrides=roles).items()
    }
    assert "/etc/train" in added["worker"].keys() & added["setup"].keys()
    if has_launcher:
        assert added["launcher"]["/key"] == added["setup"]["/key"] == "a"
        assert "/key" not in added["worker"] and "/etc/train" not in added["launcher"]


@pytest.mark.parametrize("worker", [{**KEY, "name": "settings"}, {**KEY, "mountPath": "/etc/train/"}])
def test_launcher_volume_replaces_worker_volume_with_same_name_or_path_in_setup(worker: Any) -> None:
    roles = {"worker": {"volumes": [worker]}, "launcher": {"volumes": [SETTINGS]}}
    _, pod, container = find_user_containers("mpijob", podOverrides=roles)["setup"]
    added = [volume for volume in pod["volumes"] if "configMap" in volume or "secret" in volume]
    assert added == [{"name": "settings", "configMap": {"name": "settings"}}]
    assert [mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] == "settings"] == ["/etc/train"]


@every_launcher
def test_setup_has_the_labels_tolerations_and_login_of_the_launcher(launcher: str) -> None:
    additions = {
        "labels": {"team": "vision"},
        "annotations": {"example.com/owner": "vision"},
        "tolerations": [MAINTENANCE],
        "imagePullSecrets": ["other-login"],
        "ports": [{"containerPort": 6006}],
    }
    role = list_roles(launcher)[0]
    checked = find_user_containers(launcher, podOverrides={role: additions})
    for name in (role, "setup"):
        metadata, pod, container = checked[name]
        assert metadata["labels"]["team"] == metadata["annotations"]["example.com/owner"] == "vision"
        assert MAINTENANCE in pod["tolerations"] and pod["imagePullSecrets"] == [{"name": "other-login"}]
        assert ({"containerPort": 6006} in container.get("ports", [])) == (name == role)


def test_torchrun_setup_ignores_the_node_affinity_of_its_workers() -> None:
    checked = find_user_containers("torchrun", podOverrides={"worker": {"affinity": AFFINITY}})
    assert {name: "affinity" in pod for name, (_, pod, _) in checked.items()} == {"setup": False, "worker": True}
