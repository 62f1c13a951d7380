"""Job manifests equal the files in `tests/golden/jobs`; other tests check individual rules.

`python -m tests.pure.test_job_manifests` rewrites the golden files; review the difference before you commit it.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from infra.jobs.cluster import ClusterDescription
from infra.jobs.in_pods import read_source
from infra.jobs.rank_environment import is_reserved_variable
from infra.jobs.render import place_job, remove_time_to_live, render_job
from tests.pure.job_world import (
    EVERY_LAUNCHER,
    KEYS,
    REPOSITORY,
    SMALL,
    make_cluster,
    make_job,
    placed,
    read_environment,
    render_objects,
    render_pods,
)

GOLDEN = Path(__file__).parent.parent / "golden" / "jobs"
SCRIPTS = (
    *("launch.sh", "serve.sh", "rank.sh", "setup.sh", "rendezvous.sh"),
    *("keys_on_volume.sh", "keys_in_use.sh", "keys_in_bucket.py"),
)

ADDED: dict[str, Any] = {
    "labels": {"team": "vision", "gpu": "yes"},
    "annotations": {"example.com/owner": "vision"},
    "tolerations": [{"key": "maintenance", "operator": "Exists", "effect": "NoSchedule"}],
    "affinity": {
        "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []},
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "example.com/rack"}]},
    },
    "imagePullSecrets": ["other-login"],
    "ports": [{"containerPort": 6006, "name": "tensorboard"}],
    "volumes": [
        {"name": "settings", "mountPath": "/etc/train", "readOnly": True, "configMap": {"name": "settings"}},
        {"name": "scratch", "mountPath": "/scratch", "subPath": "a", "emptyDir": {"sizeLimit": "50Gi"}},
        {"name": "pod", "mountPath": "/pod", "downwardAPI": {"items": []}},
    ],
}
OF_USER: dict[str, Any] = {
    "setup": ["true"],
    "workingDir": "/shared/code",
    "envFrom": [{"secretRef": {"name": "dataset"}, "prefix": "DATA_"}, {"configMapRef": {"name": "settings", "optional": True}}],
}


VARIANTS: dict[str, dict[str, Any]] = {
    "mpijob-least": {},
    "mpijob-efa": {"pool": "train"},
    "mpijob-most": {
        "gpusPerWorker": 2,
        "slots": 3,
        "workers": 2,
        "ranks": 2,
        "perNode": 2,
        "hosts": [1],
        "env": {"EPOCHS": "3", "NCCL_DEBUG": "INFO"},
        "secretEnv": {"DATASET_KEY": {"name": "dataset", "key": "access"}},
        "volumes": [{"name": "shared", "readOnly": True}, {"name": "scratch.claim", "mountPath": "/scratch"}],
        "setup": ["pip", "install", "-r", "/shared/requirements.txt"],
        "resources": {"cpu": "4", "memory": "16Gi", "sharedMemoryMib": 1024},
        "onePerNode": True,
        "namespace": "team-a",
        "imagePullSecrets": ["registry-login", "other-login"],
        "activeDeadlineSeconds": 3600,
        "maxRestarts": 0,
        "ttlSecondsAfterFinished": 60,
        "cleanPodPolicy": "All",
        "writableRoot": True,
    },
    "mpijob-intel": {"mpiImplementation": "Intel", "image": "intel-mpi:2021", "hosts": [0]},
    "mpijob-mpich": {"mpiImplementation": "MPICH", "image": "mpich:5", "hosts": [0], "perNode": 2},
    "mpijob-own-mpirun": {"command": ["mpirun", "-n", "2", "/home/mpiuser/pi"]},
    "mpijob-horovodrun": {"command": ["horovodrun", "--mpi", "python3", "train.py"], "perNode": 2},
    "standalone": {"launcher": "standalone", "activeDeadlineSeconds": 600},
    "standalone-efa-setup": {"launcher": "standalone", "pool": "train", "setup": ["make", "-C", "/shared"]},
    "standalone-keys-on-volume": {"launcher": "standalone", "keyExchange": "volume", "setup": ["true"]},
    "standalone-keys-in-bucket": {
        "launcher": "standalone",
        "keyExchange": "s3",
        "setup": ["true"],
        "imagePullSecrets": ["login"],
    },
    "torchrun": {"launcher": "torchrun", "command": ["train.py", "--epochs", "3"]},
    "torchrun-efa-setup": {
        "launcher": "torchrun",
        "pool": "train",
        "setup": ["sh", "-c", "true"],
        "imagePullSecrets": ["login"],
    },
    "torchrun-own-torchrun": {"launcher": "torchrun", "command": ["torchrun", "--nproc-per-node", "2", "train.py"]},
    "torchrun-accelerate": {"launcher": "torchrun", "command": ["accelerate", "launch", "--mixed_precision=bf16", "train.py"]},
    "torchrun-deepspeed": {"launcher": "torchrun", "command": ["deepspeed", "train.py"]},
    "cpu-only": {"pool": "system", "workers": 3, "slots": 1},
    "mpijob-overrides": {**OF_USER, "onePerNode": True, "podOverrides": {"worker": ADDED, "launcher": ADDED}},
    "standalone-overrides": {**OF_USER, "launcher": "standalone", "podOverrides": {"launcher": ADDED}},
    "torchrun-overrides": {**OF_USER, "launcher": "torchrun", "podOverrides": {"worker": ADDED}},
}


def render_golden_text(name: str) -> str:
    """Return a variant's objects as YAML. Scripts are replaced by their names, because each script has its own golden
    file.
    """
    manifests = render_objects(**VARIANTS[name])
    whole: str = yaml.safe_dump_all(_replace_scripts(manifests), sort_keys=False, width=120)
    return whole


def _replace_scripts(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _replace_scripts(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_replace_scripts(inner) for inner in value]
    for script in SCRIPTS if isinstance(value, str) else ():
        value = value.replace(read_source(script), f"<{script}>")
    return value


@pytest.mark.parametrize("name", VARIANTS)
def test_job_objects_match_golden_files(name: str) -> None:
    assert render_golden_text(name) == (GOLDEN / f"{name}.yaml").read_text(encoding="utf-8")


def test_every_golden_file_belongs_to_a_variant() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == set(VARIANTS)


# --- rules -------------------------------------------------------------------------------------------------------------

EVERY_KIND = tuple(EVERY_LAUNCHER.values())


@pytest.mark.parametrize("more", EVERY_KIND, ids=str)
def test_every_pod_satisfies_restricted_pod_security_standard(more: dict[str, Any]) -> None:
    for role, pod in render_pods(setup=["true"], **more).items():
        assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] == 1000, role
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, role
        assert not any(key.startswith("host") for key in pod), role
        for container in [*pod.get("initContainers", []), *pod["containers"]]:
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False and context["capabilities"] == {"drop": ["ALL"]}, role
            assert context["readOnlyRootFilesystem"] is True, role
        allowed = {"emptyDir", "persistentVolumeClaim", "secret", "configMap"}
        assert all(set(volume) - {"name"} <= allowed for volume in pod["volumes"]), role


@pytest.mark.parametrize("more", EVERY_KIND, ids=str)
def test_every_pod_is_marked_as_not_safe_to_evict(more: dict[str, Any]) -> None:
    for piece in render_objects(**more):
        for template in _list_pod_templates(piece):
            assert template["metadata"]["annotations"]["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "false"


def _list_pod_templates(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    spec = manifest.get("spec", {})
    templates = [replica_spec["template"] for replica_spec in spec.get("mpiReplicaSpecs", {}).values()]
    return templates + ([spec["template"]] if "template" in spec else [])


@pytest.mark.parametrize("launcher", ["mpijob", "standalone"])
def test_open_mpi_4_and_5_both_get_hostfile_and_slots(launcher: str) -> None:
    environment = read_environment(render_pods(launcher=launcher)["launcher"])
    for prefix in ("OMPI_MCA_orte", "PRTE_MCA_prte"):
        assert environment[f"{prefix}_default_hostfile"] == "/etc/mpi/hostfile"
        assert environment[f"{prefix}_set_default_slots"] == "4"


def test_pool_with_efa_requires_efa_in_its_jobs() -> None:
    environment = read_environment(render_pods(pool="train")["launcher"])
    assert environment["OMPI_MCA_pml"] == "cm" and environment["OMPI_MCA_mtl_ofi_provider_include"] == "efa"
    worker = render_pods(pool="train")["worker"]["containers"][0]["resources"]["limits"]
    assert worker["vpc.amazonaws.com/efa"] == "4" and worker["hugepages-2Mi"] == "10256Mi" and worker["nvidia.com/gpu"] == "8"


def test_worker_with_half_of_the_gpus_gets_half_of_the_node() -> None:
    limits = render_pods(pool="train", gpusPerWorker=4)["worker"]["containers"][0]["resources"]["limits"]
    expected_limits = {
        "cpu": "47500m",
        "memory": "500000Mi",
        "nvidia.com/gpu": "4",
        "vpc.amazonaws.com/efa": "2",
        "hugepages-2Mi": "5128Mi",
    }
    assert limits == expected_limits


def test_cpu_request_factor_reduces_only_the_cpu_request() -> None:
    resources = render_pods(make_cluster(cpu_request_factor=0.01))["worker"]["containers"][0]["resources"]
    assert resources["requests"] == {"cpu": "470m", "memory": "180000Mi", "nvidia.com/gpu": "4"}
    assert resources["limits"] == {"cpu": "47000m", "memory": "180000Mi", "nvidia.com/gpu": "4"}


def list_images(described: ClusterDescription, image: str) -> set[str]:
    """Return the container images of jobs with every launcher."""
    pods = [pod for more in EVERY_KIND for pod in render_pods(described, image=image, setup=["true"], **more).values()]
    return {container["image"] for pod in pods for container in [*pod.get("initContainers", []), *pod["containers"]]}


@pytest.mark.parametrize(
    ("mirror", "image", "pulled"),
    [
        ("", "openmpi:5", f"{REPOSITORY}/openmpi:5"),
        ("", "team/train:1", f"{REPOSITORY}/team/train:1"),
        ("", "docker.io/library/ubuntu:24.04", "docker.io/library/ubuntu:24.04"),
        ("", "localhost/train:1", "localhost/train:1"),
        ("mirror.example.com/all/", "docker.io/library/ubuntu:24.04", "mirror.example.com/all/docker.io/library/ubuntu:24.04"),
        ("mirror.example.com/all", "mirror.example.com/all/nvcr.io/a/b:1", "mirror.example.com/all/nvcr.io/a/b:1"),
        ("mirror.example.com/all", "openmpi:5", f"{REPOSITORY}/openmpi:5"),
        ("mirror.example.com/all", f"{REPOSITORY}/openmpi:5", f"{REPOSITORY}/openmpi:5"),
    ],
)
def test_short_image_names_use_the_cluster_repository_and_full_names_the_mirror(mirror: str, image: str, pulled: str) -> None:
    assert list_images(make_cluster(image_registry=mirror), image) == {pulled}


def test_short_image_name_is_never_pulled_without_a_repository() -> None:
    with pytest.raises(LookupError, match="gpumpi-test has no image repository for openmpi:5"):
        make_cluster(image_repository="").image("openmpi:5")


def test_cluster_descriptions_of_older_versions_have_no_image_repository() -> None:
    old = json.dumps({"cluster": "gpumpi-old", "pools": []})
    described = ClusterDescription.from_json(old)
    assert (described.image_repository, described.image_pull_secrets) == ("", ())


@pytest.mark.parametrize(
    ("of_cluster", "more", "expected"),
    [
        ((), {}, []),
        (("team-login",), {}, ["team-login"]),
        (("team-login",), {"imagePullSecrets": ["own", "other"]}, ["own", "other"]),
        (("team-login",), {"imagePullSecrets": []}, []),
    ],
)
def test_every_pod_has_the_pull_secrets_of_its_image(
    of_cluster: tuple[str, ...], more: dict[str, Any], expected: list[str]
) -> None:
    for kind in EVERY_KIND:
        for role, pod in render_pods(make_cluster(image_pull_secrets=of_cluster), setup=["true"], **kind, **more).items():
            assert [secret["name"] for secret in pod.get("imagePullSecrets", [])] == expected, role


def test_only_workers_have_gpus_and_no_pod_has_a_token() -> None:
    specs = render_pods(launcher="standalone", setup=["true"])
    assert set(specs) == {"launcher", "worker", "setup"}
    assert "nvidia.com/gpu" not in specs["launcher"]["containers"][0]["resources"]["limits"]
    assert not any(pod["automountServiceAccountToken"] for pod in specs.values())


def test_a_job_without_an_operator_consists_of_five_objects() -> None:
    names = [f"{item['kind']}/{item['metadata']['name']}" for item in render_objects(launcher="standalone")]
    objects = ["Job/mnist-launcher", "Secret/mnist-ssh", "ConfigMap/mnist-config", "Service/mnist", "StatefulSet/mnist-worker"]
    assert names == objects


def test_job_of_a_stack_has_no_ttl() -> None:
    for more in EVERY_KIND:
        main = render_job(place_job(remove_time_to_live(make_job(**more)), make_cluster()), lambda: KEYS)[0]
        assert "ttlSecondsAfterFinished" not in {**main["spec"], **main["spec"].get("runPolicy", {})}


def test_without_a_queue_no_object_requests_admission() -> None:
    described = make_cluster(namespaces=(make_cluster().namespaces[0].model_copy(update={"queue": None}),))
    for more in EVERY_KIND:
        assert "kueue" not in str(render_objects(described, **more))
    for more in ({}, {"launcher": "torchrun"}):
        assert render_objects(**more)[0]["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "jobs"


def test_pod_scripts_avoid_unintended_kubernetes_variable_expansion() -> None:
    """In a container's command, Kubernetes expands `$(NAME)` to the variable's value and `$$` to one dollar sign."""
    for script in SCRIPTS:
        assert "$$" not in read_source(script)
        assert not [name for name in read_environment(render_pods()["launcher"]) if f"$({name})" in read_source(script)]


@given(workers=st.integers(1, 8), gpus=st.integers(1, 4), slots=st.integers(1, 16))
def test_workers_on_a_node_never_request_more_than_its_capacity(workers: int, gpus: int, slots: int) -> None:
    from infra.jobs.sizing import count_workers_per_node

    described = make_cluster(pools=(*make_cluster().pools[:2], SMALL.model_copy(update={"max_size": 8})))
    world = placed(described, workers=workers, gpusPerWorker=gpus, slots=slots)
    each = count_workers_per_node(world.job, world.size, world.pool, 1.0)
    assert each >= 1
    assert each * world.size.gpus <= SMALL.gpus
    assert each * world.size.memory_mib <= SMALL.memory_mib
    assert each * world.size.cpu_millis <= SMALL.cpu_millis


@given(hosts=st.sets(st.integers(0, 3), min_size=1), ranks=st.integers(1, 8))
def test_mpirun_gets_only_the_selected_subset_of_hosts(hosts: set[int], ranks: int) -> None:
    described = make_cluster(pools=(*make_cluster().pools[:2], SMALL.model_copy(update={"max_size": 4})))
    selection = {"workers": 4, "hosts": sorted(hosts), "ranks": min(ranks, 4 * len(hosts))}
    line = render_pods(described, **selection)["launcher"]["containers"][0]["command"]
    listed_hosts = line[line.index("--host") + 1].split(",")
    assert listed_hosts == [f"mnist-worker-{number}.mnist.mpi-jobs.svc:4" for number in sorted(hosts)]


def test_user_cannot_override_variables_read_by_the_launcher() -> None:
    """The user's variables come last in a pod and override earlier variables, so users must not set those that
    launchers read.
    """
    for implementation in ("OpenMPI", "Intel", "MPICH"):
        environment = read_environment(render_pods(mpiImplementation=implementation)["launcher"])
        plumbing = {name for name in environment if "hostfile" in name.lower() or "HOST_FILE" in name or "slots" in name}
        assert plumbing and all(is_reserved_variable(name) for name in plumbing)
    assert (
        not is_reserved_variable("OMPI_MCA_pml")
        and not is_reserved_variable("NCCL_DEBUG")
        and not is_reserved_variable("FI_PROVIDER")
    )


if __name__ == "__main__":
    for each in VARIANTS:
        (GOLDEN / f"{each}.yaml").write_text(render_golden_text(each), encoding="utf-8")


@pytest.mark.parametrize(
    ("launcher", "command", "end"),
    [
        ("torchrun", ["timeout", "60", "torchrun", "train.py"], ["rendezvous", "timeout", "60", "torchrun", "train.py"]),
        ("torchrun", ["numactl", "-N", "0", "deepspeed", "t.py"], ["--master_port=$(MASTER_PORT)", "t.py"]),
        (
            "torchrun",
            ["env", "A=torchrun", "python3", "t.py"],
            ["torchrun", "--no_python", "env", "A=torchrun", "python3", "t.py"],
        ),
        ("mpijob", ["env", "A=1", "mpirun", "./a.out"], ["launch", "env", "A=1", "mpirun", "./a.out"]),
        ("mpijob", ["env", "A=1", "horovodrun", "t.py"], ["--disable-cache", "t.py"]),
        ("mpijob", ["time", "python3", "t.py", "mpirun"], ["rank", "time", "python3", "t.py", "mpirun"]),
    ],
)
def test_mpirun_behind_wrappers_such_as_env_and_timeout_is_not_nested(launcher: str, command: list[str], end: list[str]) -> None:
    there = render_pods(launcher=launcher, command=command)
    rendered_command = there.get("launcher", there["worker"])["containers"][0]["command"]
    assert rendered_command[-len(end) :] == end
