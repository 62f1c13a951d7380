"""Invalid job settings, with the full message of each rule."""

from pathlib import Path
from typing import Any

import pytest

from infra.jobs.reading import JobRefused, judged, read
from infra.jobs.validation import check
from tests.pure.job_world import cluster, job, values

LONG = "a" * 54
RESERVED = "is set by the launcher to place and number ranks. Remove it."

IN_ENV = (
    "in plain text, and everyone who can read the file can see it; "
    "revoke it, put a new one into a Kubernetes Secret, and reference it in secretEnv"
)

REFUSED: list[tuple[dict[str, Any], str]] = [
    (
        {"rankPrefix": True, "command": ["mpirun", "-np", "2", "a"]},
        "rankPrefix: has no effect, because the command starts the ranks. Remove it, or add --tag-output there.",
    ),
    # more than the pool can ever hold
    (
        {"workers": 3},
        "workers: 3 can never fit: pool small has at most 2 nodes, 1 worker per node. Use at most 2, or raise the "
        "pool's maxSize.",
    ),
    (
        {"workers": 9, "gpusPerWorker": 1},
        "workers: 9 can never fit: pool small has at most 2 nodes, 4 workers per node. Use at most 8, or raise the "
        "pool's maxSize.",
    ),
    (
        {"workers": 3, "gpusPerWorker": 1, "onePerNode": True},
        "workers: 3 can never fit: pool small has at most 2 nodes, 1 worker per node. Use at most 2, or raise the "
        "pool's maxSize.",
    ),
    ({"gpusPerWorker": 5}, "gpusPerWorker: 5 exceeds the 4 GPUs per node of pool small. Lower it."),
    (
        {"pool": "system", "gpusPerWorker": 1},
        "gpusPerWorker: is 1, but nodes of pool system have no GPUs. Remove it, or choose another pool.",
    ),
    (
        {"resources": {"memory": "200Gi"}},
        'resources.memory: "200Gi" exceeds what a node in pool small has available for jobs (180000 MiB of memory). Lower it.',
    ),
    (
        {"resources": {"cpu": "48"}},
        'resources.cpu: "48" exceeds what a node in pool small has available for jobs (47000 thousandths of a CPU). Lower it.',
    ),
    (
        {"resources": {"efa": 1}},
        "resources.efa: 1 exceeds what a node in pool small has available for jobs (0 EFA interfaces). Lower it.",
    ),
    (
        {"resources": {"sharedMemoryMib": 200000}},
        "resources.sharedMemoryMib: 200000 exceeds the worker's memory of 180000 MiB. Lower it, or raise memory, which "
        "includes it.",
    ),
    (
        {"resources": {"rdma": 1}},
        "resources.rdma: 1 exceeds what a node in pool small has available for jobs (0 RDMA devices). Lower it.",
    ),
    # commands that start ranks themselves, and how ranks end
    (
        {"command": ["torchrun", "train.py"]},
        "command: starts torchrun, which launcher mpijob would run once per rank. Set launcher: torchrun.",
    ),
    (
        {"launcher": "standalone", "command": ["bash", "-c", "source env; exec accelerate launch train.py"]},
        "command: starts accelerate, which launcher standalone would run once per rank. Set launcher: torchrun.",
    ),
    (
        {"command": ["python3", "-m", "deepspeed.launcher.runner", "train.py"]},
        "command: starts deepspeed, which launcher mpijob would run once per rank. Set launcher: torchrun.",
    ),
    (
        {"launcher": "torchrun", "command": ["/opt/mpi/bin/mpirun", "./a.out"]},
        "command: starts mpirun, which needs hosts that accept SSH; those of launcher torchrun do not. Set launcher: mpijob.",
    ),
    ({"terminationGracePeriodSeconds": 0}, "terminationGracePeriodSeconds: 0 is too small. Use at least 1."),
    # names
    ({"pool": "smal"}, 'pool: "smal" is not a pool of gpumpi-test; did you mean small?'),
    ({"pool": "zzz"}, 'pool: "zzz" is not a pool of gpumpi-test. Choose system, train or small.'),
    (
        {"name": "Mnist_1"},
        'name: "Mnist_1" is not a DNS label. Use lowercase letters, digits and inner hyphens, starting with a letter.',
    ),
    ({"name": "1st"}, 'name: "1st" is not a DNS label. Use lowercase letters, digits and inner hyphens, starting with a letter.'),
    (
        {"name": f"{LONG}b"},
        f'name: "{LONG}b" results in "{LONG}b-w...", which has 64 characters. Use at most 54.',
    ),
    (
        {"name": LONG, "launcher": "standalone"},
        f'name: "{LONG}" results in "{LONG}-wo...", which has 61 characters. Use at most 45.',
    ),
    (
        {"namespace": "Team"},
        'namespace: "Team" is not a valid namespace name. Use lowercase letters, digits and inner hyphens.',
    ),
    ({"priority": "hihg"}, 'priority: "hihg" is not a priority class for jobs. Use low or high; did you mean high?'),
    ({"image": ""}, "image: is empty. Use an image such as registry.example.com/train:1."),
    ({"image": "https://example.com/a:1"}, 'image: "https://example.com/a:1" is a URL. Remove https:// from it.'),
    ({"image": "a b"}, 'image: "a b" is not an image name. Use one such as registry.example.com/train:1.'),
    (
        {"image": "Train:1"},
        'image: "Train:1" is not an image name. Use one such as registry.example.com/train:1.',
    ),
    (
        {"image": "team/a--b:1"},
        'image: "team/a--b:1" is not a valid short image name. Use lowercase letters and digits, separated by single . _ or -, '
        "such as train:1.",
    ),
    (
        {"imagePullSecrets": ["Login"]},
        'imagePullSecrets[0]: "Login" is not a valid Secret name. Use the name shown by `kubectl get secrets`, such as '
        "registry-login.",
    ),
    ({"imagePullSecrets": ["a", "a"]}, 'imagePullSecrets[1]: "a" is listed twice. Remove one.'),
    ({"home": "home"}, 'home: "home" is not an absolute path. Use one such as /home/mpiuser.'),
    # environment
    (
        {"env": {"OMPI_MCA_orte_default_hostfile": "/x"}},
        "env.OMPI_MCA_orte_default_hostfile: is set by the launcher to place and number ranks. Remove it.",
    ),
    (
        {"env": {"PRTE_MCA_prte_default_hostfile": "/x"}},
        "env.PRTE_MCA_prte_default_hostfile: is set by the launcher to place and number ranks. Remove it.",
    ),
    (
        {"secretEnv": {"PET_MASTER_ADDR": {"name": "a", "key": "b"}}},
        "secretEnv.PET_MASTER_ADDR: is set by the launcher to place and number ranks. Remove it.",
    ),
    ({"env": {"1ST": ""}}, "env.1ST: is not a valid variable name. Use letters, digits and _, and no digit at the start."),
    ({"env": {"A": ""}, "secretEnv": {"A": {"name": "a", "key": "b"}}}, "secretEnv.A: is also in env. Remove one."),
    (
        {"env": {"HF_TOKEN": "abc"}},
        f"env.HF_TOKEN: holds a secret (by its name) {IN_ENV}",
    ),
    ({"env": {"WANDB_KEY": "0a1b2c"}}, f"env.WANDB_KEY: holds a secret (by its name) {IN_ENV}"),
    ({"env": {"DB_PASS": "x"}}, f"env.DB_PASS: holds a secret (by its name) {IN_ENV}"),
    ({"env": {"DB_PWD": "x"}}, f"env.DB_PWD: holds a secret (by its name) {IN_ENV}"),
    (
        {"env": {"DATABASE": "postgres://ada:hunter2@db.example.com/runs"}},
        f"env.DATABASE: holds a URL with a password {IN_ENV}",
    ),
    # numbers
    ({"workers": 0}, "workers: 0 is too small. Use at least 1."),
    # additions to the pods
    (
        {"launcher": "torchrun", "podOverrides": {"launcher": {"labels": {"a": "b"}}}},
        "podOverrides.launcher: has no effect, because jobs of launcher torchrun have only workers. Remove it.",
    ),
    (
        {"podOverrides": {"worker": {"labels": {"gpumpi.io/job": "a"}}}},
        "podOverrides.worker.labels.gpumpi.io/job: is set by the launcher or the queue. Remove it.",
    ),
    (
        {"podOverrides": {"worker": {"labels": {"a b": "c"}}}},
        "podOverrides.worker.labels.a b: is not a label. Use letters, digits, -, _ and ., at most 63, with a prefix such as "
        "example.com/.",
    ),
    (
        {"podOverrides": {"worker": {"labels": {"a": "b c"}}}},
        'podOverrides.worker.labels.a: "b c" is not a label\'s value. Use at most 63 letters, digits, -, _ and . characters.',
    ),
    (
        {"podOverrides": {"worker": {"tolerations": [{"value": "a"}]}}},
        "podOverrides.worker.tolerations[0].key: is missing. Add it, or set operator: Exists to tolerate all taints.",
    ),
    (
        {"podOverrides": {"worker": {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]}}},
        "podOverrides.worker.tolerations[0].value: is not allowed with operator: Exists. Remove one of them.",
    ),
    (
        {"podOverrides": {"worker": {"tolerations": [{"key": "a", "value": "b", "tolerationSeconds": 1}]}}},
        "podOverrides.worker.tolerations[0].tolerationSeconds: needs effect: NoExecute. Set it, or remove tolerationSeconds.",
    ),
    (
        {"podOverrides": {"worker": {"ports": [{"containerPort": 2222}]}}},
        "podOverrides.worker.ports[0].containerPort: 2222 is used by the launcher. Use another port.",
    ),
    (
        {"podOverrides": {"worker": {"ports": [{"containerPort": 70000}]}}},
        "podOverrides.worker.ports[0].containerPort: 70000 is not a port. Use 1 to 65535.",
    ),
    (
        {"podOverrides": {"worker": {"volumes": [{"name": "a", "mountPath": "/a"}]}}},
        "podOverrides.worker.volumes[0]: has 0 kinds. Set exactly one of configMap, secret, emptyDir, projected, downwardAPI, "
        "ephemeral, csi.",
    ),
    (
        {"podOverrides": {"worker": {"volumes": [{"name": "a", "mountPath": "/a", "hostPath": {"path": "/a"}}]}}},
        "podOverrides.worker.volumes[0].hostPath: Pod Security forbids files of the node in jobs. Use emptyDir, or list a claim "
        "under volumes of the job.",
    ),
    (
        {"podOverrides": {"worker": {"volumes": [{"name": "tmp", "mountPath": "/a", "emptyDir": {}}]}}},
        'podOverrides.worker.volumes[0].name: "tmp" is already the name of a volume. Choose another.',
    ),
    (
        {"podOverrides": {"worker": {"volumes": [{"name": "A", "mountPath": "/a", "emptyDir": {}}]}}},
        'podOverrides.worker.volumes[0].name: "A" is not a valid name. Use lowercase letters, digits and inner hyphens, and '
        "another prefix than gpumpi-.",
    ),
    (
        {"podOverrides": {"worker": {"volumes": [{"name": "a", "mountPath": "/dev/shm", "emptyDir": {}}]}}},
        'podOverrides.worker.volumes[0].mountPath: "/dev/shm" is in use. Choose another.',
    ),
    (
        {"podOverrides": {"worker": {"volumes": [{"name": "a", "mountPath": "/usr/bin", "emptyDir": {}}]}}},
        'podOverrides.worker.volumes[0].mountPath: "/usr/bin" is a system directory. Use a path such as /data.',
    ),
    ({"envFrom": [{"prefix": "A_"}]}, "envFrom[0]: names no source, or two. Set exactly one of configMapRef, secretRef."),
    ({"workingDir": "code"}, 'workingDir: "code" is not an absolute path. Use one such as /shared/code.'),
    (
        {"workingDir": "/shared/code", "workdir": "."},
        "workingDir: cannot be combined with workdir: ranks start in the folder that workdir sends. Remove one, or start the "
        "command with a cd into the other folder.",
    ),
    ({"maxRestarts": -1}, "maxRestarts: -1 is too small. Use at least 0."),
    ({"activeDeadlineSeconds": 0}, "activeDeadlineSeconds: 0 is too small. Use at least 1."),
    ({"ranks": 9}, "ranks: 9 ranks do not fit on 2 workers with 4 each. Use at most 8, or raise workers or slots."),
    ({"ranks": 5, "hosts": [0]}, "ranks: 5 ranks do not fit on 1 worker with 4 each. Use at most 4, or raise workers or slots."),
    ({"perNode": 5}, "perNode: 5 exceeds the 4 slots of a worker. Lower it, or raise slots."),
    ({"resources": {"memory": "much"}}, 'resources.memory: "much" is not a quantity. Use one such as 64Gi.'),
    ({"resources": {"cpu": 8}}, 'resources.cpu: 8 is a number; write it in quotes, like "8"'),
    # hosts
    ({"hosts": []}, "hosts: is empty. List worker indexes, starting at 0, or remove it."),
    ({"hosts": [2]}, "hosts[0]: 2 is not one of the 2 workers. Use 0 to 1."),
    ({"hosts": [0, 0]}, "hosts[1]: 0 is listed twice. Remove one."),
    # options that a launcher does not support
    (
        {"launcher": "torchrun", "ranks": 2},
        "ranks: is an option of mpirun, which launcher torchrun does not use. Remove it.",
    ),
    (
        {"launcher": "standalone", "mpiImplementation": "Intel"},
        "mpiImplementation: Intel is not supported by launcher standalone. Use OpenMPI, or launcher: mpijob.",
    ),
    (
        {"keyExchange": "volume"},
        "keyExchange: volume works only with launcher standalone, not with mpijob. Remove it, or set launcher: standalone.",
    ),
    (
        {"launcher": "standalone", "keyExchange": "volume", "volumes": [{"name": "shared", "readOnly": True}]},
        "keyExchange: volume needs a volume that the job can write to, and the job has none. List a ReadWriteMany "
        "volume under volumes, or use secret.",
    ),
    (
        {"launcher": "standalone", "keyExchange": "s3", "namespace": "team-a"},
        "keyExchange: s3 needs the key bucket that stacks with target eks create, and this cluster has none. Use "
        "secret or volume.",
    ),
    (
        {"launcher": "standalone", "keyExchange": "s3", "resources": {"memory": "200Mi"}},
        "resources.memory: 200 MiB leaves no room for the sidecar of keyExchange s3. Raise it to 256Mi, or use "
        "keyExchange: secret.",
    ),
    (
        {"launcher": "standalone", "keyExchange": "volume", "cleanPodPolicy": "None"},
        "cleanPodPolicy: None leaves the key on the volume, because remaining workers need it. Use Running, or "
        "keyExchange: secret.",
    ),
    (
        {"mpiImplementation": "MPICH", "perSocket": 1},
        "perSocket: is an option of Open MPI only, not of MPICH. Use perNode.",
    ),
    ({"perNode": 1, "perSocket": 1}, "perSocket: cannot be combined with perNode. Remove one."),
    (
        {"command": ["mpirun", "-n", "2", "x"], "ranks": 2},
        "ranks: is ignored because the command starts ranks itself. Set it in the command, or remove mpirun from the command.",
    ),
    (
        {"command": ["horovodrun", "-np", "2", "x"], "perNode": 2},
        "perNode: is ignored because the command starts ranks itself. Set it in the command, or remove horovodrun from "
        "the command.",
    ),
    ({"command": ["horovodrun", "x"], "perSocket": 1}, "perSocket: is not an option of horovodrun. Use perNode."),
    ({"command": ["horovodrun", "x"], "perNode": 5}, "perNode: 5 exceeds the 4 slots of a worker. Lower it, or raise slots."),
    ({"command": []}, "command: is empty. Set the program that every rank runs, such as [python3, /shared/train.py]."),
    # volumes
    (
        {"volumes": [{"name": "shard"}]},
        'volumes[0].mountPath: is missing: "shard" is not a volume of the cluster. Add it; did you mean shared?',
    ),
    (
        {"volumes": [{"name": "shared"}, {"name": "mine", "mountPath": "/shared/"}]},
        'volumes[1].mountPath: "/shared/" is used by volumes[0]. Choose another.',
    ),
    (
        {"volumes": [{"name": "mine", "mountPath": "/tmp"}]},
        'volumes[0].mountPath: "/tmp" is used by the pod itself. Choose another.',
    ),
    (
        {"volumes": [{"name": "mine", "mountPath": "/proc/data"}]},
        'volumes[0].mountPath: "/proc/data" is a system directory. Use a path such as /data.',
    ),
    (
        {"volumes": [{"name": "mine", "mountPath": "/my data"}]},
        'volumes[0].mountPath: "/my data" is not an absolute path made of letters, digits and . _ -. Use a path such as /data.',
    ),
]


def messages(given: dict[str, Any], **described: Any) -> str:
    with pytest.raises(JobRefused) as refused:
        judged(given, cluster(**described))
    return str(refused.value)


def _id(case: Any) -> str:
    return ",".join(case) if isinstance(case, dict) else ""


@pytest.mark.parametrize(("more", "message"), REFUSED, ids=_id)
def test_a_job_that_cannot_be_is_refused_with_a_fix(more: dict[str, Any], message: str) -> None:
    assert messages(values(**more)) == message


def test_all_problems_are_reported_at_once() -> None:
    told = messages({"name": "A", "pool": "smal", "workers": "2", "comand": ["x"]}).splitlines()
    assert [line.partition(":")[0] for line in told] == ["workers", "image", "command", "comand", "name", "pool"]


@pytest.mark.parametrize("image", ["openmpi:5", "ubuntu:24.04", "gpumpi/openmpi:5", f"train@sha256:{'0' * 64}"])
def test_without_a_repository_a_short_image_name_is_refused(image: str) -> None:
    told = messages(values(image=image), image_repository="")
    assert told.startswith(f'image: "{image[:9]}') and told.endswith(
        "has no registry, and gpumpi-test has no image repository. Write the full name, such as "
        "docker.io/library/ubuntu:24.04, or set platform.imageRepositories (target eks) or platform.imageRepository and run "
        "`pulumi up`."
    )


@pytest.mark.parametrize("image", ["docker.io/library/ubuntu:24.04", "localhost/train:1", "registry:5000/train:1"])
def test_a_full_image_name_needs_no_repository(image: str) -> None:
    assert judged(values(image=image), cluster(image_repository="")).image == image


def test_without_an_operator_mpijob_is_refused() -> None:
    wanted = "launcher: mpijob needs mpi-operator, which gpumpi-test does not have. Use standalone or torchrun."
    assert messages(values(), mpi_operator=False) == wanted


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            {"image": "registry.example.com:5000/train"},
            'image: "registry.example.com:5000/train" has no tag or digest, so a retry may run another image. Add one, '
            "such as registry.example.com:5000/train:1.",
        ),
        (
            {"slots": 8},
            "slots: 8 ranks would share the 4 GPUs of a worker. Use 4, or ignore this if ranks share GPUs on purpose.",
        ),
    ],
)
def test_a_job_that_may_run_badly_is_accepted_with_a_warning(more: dict[str, Any], message: str) -> None:
    warnings: list[str] = []
    judged(values(**more), cluster(), on_warning=lambda problem: warnings.append(str(problem)))
    assert warnings == [message]


@pytest.mark.parametrize("more", [{"image": f"i@sha256:{'0' * 64}"}, {"env": {"BYPASS_CACHE": "on", "NUM_PASSES": "3"}}])
def test_a_pinned_image_and_harmless_names_get_no_warning(more: dict[str, Any]) -> None:
    warnings: list[str] = []
    judged(values(**more), cluster(), on_warning=lambda problem: warnings.append(str(problem)))
    assert warnings == []


def test_an_amount_with_an_exponent_is_legal() -> None:
    assert check(job(resources={"memory": "12e6"}), cluster()) == []


def test_in_a_stack_file_problems_are_reported_at_the_jobs_path() -> None:
    (problem,) = check(job().model_copy(update={"pool": "zz"}), cluster(), "jobs[1]")
    assert problem.path == "jobs[1].pool"


def test_a_job_that_fits_exactly_is_not_refused() -> None:
    for more in ({"workers": 8, "gpusPerWorker": 1}, {"name": "a" * 54}, {"ranks": 8, "perNode": 4}):
        assert check(job(**more), cluster()) == []


def test_where_small_nodes_stand_for_large_ones_a_whole_node_still_fits() -> None:
    assert check(job(), cluster(cpu_request_factor=0.01)) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: [", "job.yaml: is not YAML: expected the node content, but found '<stream end>', line 1, column 8"),
        ("just words", "job.yaml: is not a job: it has no keys like name, pool and command"),
        ("", "job.yaml: is not a job: it has no keys like name, pool and command"),
    ],
)
def test_a_file_that_is_no_job_is_said_to_be_none(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(text)
    with pytest.raises(JobRefused, match=r".*") as refused:
        read(file, cluster())
    assert str(refused.value) == message


def test_a_key_that_is_written_twice_is_a_problem(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("name: a\npool: small\nworkers: 1\nimage: i:1\ncommand: [x]\nworkers: 2\n")
    with pytest.raises(JobRefused) as refused:
        read(file, cluster())
    assert str(refused.value) == "workers: is written twice, in lines 3 and 6; keep one"


def test_the_namespace_that_is_typed_wins_over_the_file_s_and_that_over_the_usual_one(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    text = "name: a\npool: small\nworkers: 1\nimage: i:1\ncommand: [x]\n"
    file.write_text(text)
    assert read(file, cluster()).namespace is None
    assert read(file, cluster(), None, "usual").namespace == "usual"
    file.write_text(f"{text}namespace: own\n")
    assert read(file, cluster(), None, "usual").namespace == "own"
    assert read(file, cluster(), "typed", "usual").namespace == "typed"
