"""Every container that runs the user's commands has what the job's `env`, `volumes` and `podOverrides` add to pods."""

from typing import Any

import pytest

from infra.jobs import files
from tests.pure.job_world import cluster, pieces

SETTINGS = {"name": "settings", "mountPath": "/etc/train", "readOnly": True, "configMap": {"name": "settings"}}
KEY = {"name": "key", "mountPath": "/key", "subPath": "a", "secret": {"secretName": "key"}}
OF_USER: dict[str, Any] = {
    "command": ["run-ranks"],
    "setup": ["run-setup"],
    "env": {"EPOCHS": "3"},
    "secretEnv": {"TOKEN": {"name": "login", "key": "token"}},
    "envFrom": [{"secretRef": {"name": "dataset"}, "prefix": "DATA_"}, {"configMapRef": {"name": "settings", "optional": True}}],
    "workingDir": "/shared/code",
    "volumes": [{"name": "shared"}, {"name": "scratch.claim", "mountPath": "/scratch"}],
    "writableRoot": True,
}
KINDS: dict[str, dict[str, Any]] = {
    "mpijob": {},
    "standalone": {"launcher": "standalone"},
    "standalone with keys on a volume": {"launcher": "standalone", "keyExchange": "volume"},
    "standalone with keys in a bucket": {"launcher": "standalone", "keyExchange": "s3"},
    "torchrun": {"launcher": "torchrun"},
}
every_kind = pytest.mark.parametrize("kind", KINDS)
with_and_without_controller = pytest.mark.parametrize("controller", [True, False], ids=["controller", "no controller"])
Found = list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]
"""Metadata of a pod, its spec, and one of its containers."""


def user_containers(kind: str, controller: bool, **more: Any) -> Found:
    """Return the containers with a word of the user's in their commands, and the workers, whose sshd starts ranks."""
    found: Found = []
    for piece in pieces(cluster(job_controller=controller), **{**OF_USER, **KINDS[kind], **more}):
        spec = piece.manifest.get("spec", {})
        for template in [*(one["template"] for one in spec.get("mpiReplicaSpecs", {}).values()), spec.get("template")]:
            for one in [*template["spec"].get("initContainers", ()), *template["spec"]["containers"]] if template else ():
                if {"run-ranks", "run-setup"} & set(one["command"]) or one["name"] == "worker":
                    found.append((template["metadata"], template["spec"], one))
    return found


def runs_setup(container: dict[str, Any]) -> bool:
    return "run-setup" in container["command"]


@every_kind
@with_and_without_controller
def test_setup_and_ranks_have_the_same_environment_folder_and_volumes(kind: str, controller: bool) -> None:
    found = user_containers(kind, controller)
    assert [runs_setup(one) for _, _, one in found].count(True) == 1
    assert any("run-ranks" in one["command"] for _, _, one in found)
    for _, pod, one in found:
        env = {variable["name"]: variable.get("value", variable.get("valueFrom")) for variable in one["env"]}
        assert (env["EPOCHS"], env["TOKEN"]) == ("3", {"secretKeyRef": {"name": "login", "key": "token"}}), one["name"]
        assert [source.get("prefix") for source in one["envFrom"]] == ["DATA_", None], one["name"]
        assert one["workingDir"] == "/shared/code", one["name"]
        assert {"/shared", "/scratch", "/tmp"} <= {mount["mountPath"] for mount in one["volumeMounts"]}, one["name"]
        assert {mount["name"] for mount in one["volumeMounts"]} <= {volume["name"] for volume in pod["volumes"]}
        assert one["securityContext"]["readOnlyRootFilesystem"] is False, one["name"]


@every_kind
@with_and_without_controller
def test_setup_has_the_volumes_of_every_role(kind: str, controller: bool) -> None:
    roles = {"worker": {"volumes": [SETTINGS]}, **({} if kind == "torchrun" else {"launcher": {"volumes": [KEY]}})}
    wanted = {"worker": {"settings"}, "launcher": {"key"}, "setup": {"settings"} if kind == "torchrun" else {"settings", "key"}}
    for _, pod, one in user_containers(kind, controller, podOverrides=roles):
        role = "setup" if runs_setup(one) else one["name"]
        mounts = {mount["name"]: mount for mount in one["volumeMounts"] if mount["name"] in ("settings", "key")}
        assert mounts.keys() == wanted[role], role
        sources = {volume["name"]: volume for volume in pod["volumes"]}
        assert len(sources) == len(pod["volumes"]), "no volume is listed twice"
        if "settings" in mounts:
            assert mounts["settings"] == {"name": "settings", "mountPath": "/etc/train", "readOnly": True}
            assert sources["settings"]["configMap"] == {"name": "settings"}
        if "key" in mounts:
            assert mounts["key"]["subPath"] == "a" and sources["key"]["secret"] == {"secretName": "key"}


@pytest.mark.parametrize("worker", [{**KEY, "name": "settings"}, {**KEY, "mountPath": "/etc/train/"}])
@with_and_without_controller
def test_the_launchers_volume_wins_over_a_workers_volume_with_its_name_or_path(controller: bool, worker: Any) -> None:
    roles = {"worker": {"volumes": [worker]}, "launcher": {"volumes": [SETTINGS]}}
    for _, pod, one in user_containers("mpijob", controller, podOverrides=roles):
        if runs_setup(one):
            assert [volume for volume in pod["volumes"] if "configMap" in volume or "secret" in volume] == [
                {"name": "settings", "configMap": {"name": "settings"}}
            ]
            assert [mount["mountPath"] for mount in one["volumeMounts"] if mount["name"] == "settings"] == ["/etc/train"]


@every_kind
@with_and_without_controller
def test_setup_has_the_labels_tolerations_and_login_of_its_role(kind: str, controller: bool) -> None:
    toleration = {"key": "maintenance", "operator": "Exists", "effect": "NoSchedule"}
    additions = {
        "labels": {"team": "vision"},
        "annotations": {"example.com/owner": "vision"},
        "tolerations": [toleration],
        "imagePullSecrets": ["other-login"],
        "ports": [{"containerPort": 6006}],
    }
    role = "worker" if kind == "torchrun" else "launcher"
    for metadata, pod, one in user_containers(kind, controller, podOverrides={role: additions}):
        if runs_setup(one):
            assert metadata["labels"]["team"] == metadata["annotations"]["example.com/owner"] == "vision"
            assert metadata["labels"]["gpumpi.io/role"] == ("setup" if controller else role)
            assert toleration in pod["tolerations"] and pod["imagePullSecrets"] == [{"name": "other-login"}]
            assert "ports" not in one


def test_setup_of_torchrun_may_run_on_nodes_that_the_workers_affinity_excludes() -> None:
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}
    found = user_containers("torchrun", controller=True, podOverrides={"worker": {"affinity": affinity}})
    assert {runs_setup(one): "affinity" in pod for _, pod, one in found} == {True: False, False: True}


@with_and_without_controller
def test_a_sent_folder_replaces_the_working_directory_everywhere(controller: bool) -> None:
    place = files.JobFiles("/shared/.gpumpi/jobs/mpi-jobs", "mnist.1")
    made = files.used_by(pieces(cluster(job_controller=controller), setup=["run-setup"]), place, workdir=True, logs=True)
    found = [one for piece in made for pod in files.rank_pods(piece.manifest) for one in pod.get("initContainers", ())]
    found += [one for piece in made for pod in files.rank_pods(piece.manifest) for one in pod.get("containers", ())]
    assert {one["name"] for one in found} == {"launcher", "worker", "setup" if controller else "prepare"}
    for one in found:
        assert one["workingDir"] == "/shared/.gpumpi/jobs/mpi-jobs/mnist.1/workdir", one["name"]
