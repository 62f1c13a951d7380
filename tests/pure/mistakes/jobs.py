"""Rejected job settings, with the full messages."""

from typing import Any

LONG = "a" * 54
RESERVED = "is set by the launcher to place and number ranks. Remove it."

IN_ENV = (
    "in plain text, and everyone who can read the file can see it; "
    "revoke it, put a new one into a Kubernetes Secret, and reference it in secretEnv"
)

REFUSED: list[tuple[dict[str, Any], str]] = [
    (
        {"rankPrefix": True, "command": ["mpirun", "-np", "2", "a"]},
        "rankPrefix: has no effect, because the command starts the ranks. Remove it, or add --tag-output to the command.",
    ),
    # more workers than the pool can ever hold
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
    (  # p4d.24xlarge: 8 GPUs, 4 EFA interfaces
        {"pool": "train", "gpusPerWorker": 1},
        "resources.efa: a worker with 1 of 8 GPUs gets none of the node's 4 EFA interfaces. Use larger workers, or set "
        "resources.efa to 1, or to 0 to use TCP.",
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
    # commands that start ranks themselves, and the grace period
    (
        {"command": ["torchrun", "train.py"]},
        "command: starts torchrun, which launcher mpijob would run once per rank. Set launcher: torchrun.",
    ),
    (
        {"launcher": "standalone", "command": ["bash", "-c", "source env; exec accelerate launch train.py"]},
        "command: starts accelerate, which launcher standalone would run once per rank. Set launcher: torchrun.",
    ),
    (
        {"command": ["timeout", "60", "env", "A=1", "torchrun", "train.py"]},
        "command: starts torchrun, which launcher mpijob would run once per rank. Set launcher: torchrun.",
    ),
    (
        {"command": ["bash", "-c", "A=1 numactl -N 0 deepspeed train.py"]},
        "command: starts deepspeed, which launcher mpijob would run once per rank. Set launcher: torchrun.",
    ),
    (
        {"launcher": "torchrun", "command": ["env", "A=1", "mpirun", "./a.out"]},
        "command: starts mpirun, which needs SSH to the workers; launcher torchrun does not set it up. Set launcher: mpijob.",
    ),
    (
        {"command": ["python3", "-m", "deepspeed.launcher.runner", "train.py"]},
        "command: starts deepspeed, which launcher mpijob would run once per rank. Set launcher: torchrun.",
    ),
    (
        {"launcher": "torchrun", "command": ["/opt/mpi/bin/mpirun", "./a.out"]},
        "command: starts mpirun, which needs SSH to the workers; launcher torchrun does not set it up. Set launcher: mpijob.",
    ),
    ({"terminationGracePeriodSeconds": 0}, "terminationGracePeriodSeconds: 0 is too small. Use at least 1."),
    # names
    ({"pool": "smal"}, 'pool: "smal" is not a pool of gpumpi-test. Did you mean small?'),
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
    ({"priority": "hihg"}, 'priority: "hihg" is not a priority class for jobs. Use low or high. Did you mean high?'),
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
        f"env.HF_TOKEN: holds a secret (judging by the key's name) {IN_ENV}",
    ),
    ({"env": {"WANDB_KEY": "0a1b2c"}}, f"env.WANDB_KEY: holds a secret (judging by the key's name) {IN_ENV}"),
    ({"env": {"DB_PASS": "x"}}, f"env.DB_PASS: holds a secret (judging by the key's name) {IN_ENV}"),
    ({"env": {"DB_PWD": "x"}}, f"env.DB_PWD: holds a secret (judging by the key's name) {IN_ENV}"),
    (
        {"env": {"DATABASE": "postgres://ada:hunter2@db.example.com/runs"}},
        f"env.DATABASE: holds a URL with a password {IN_ENV}",
    ),
    # numbers
    ({"workers": 0}, "workers: 0 is too small. Use at least 1."),
    # additions to the pods
    (
        {"launcher": "torchrun", "podOverrides": {"launcher": {"labels": {"a": "b"}}}},
        "podOverrides.launcher: has no effect, because jobs with launcher torchrun have only workers. Remove it.",
    ),
    (
        {"podOverrides": {"worker": {"labels": {"gpumpi.io/job": "a"}}}},
        "podOverrides.worker.labels.gpumpi.io/job: is set by the launcher or the queue. Remove it.",
    ),
    (
        {"podOverrides": {"worker": {"labels": {"a b": "c"}}}},
        "podOverrides.worker.labels.a b: is not a valid label key. Use one such as team or example.com/team.",
    ),
    (
        {"podOverrides": {"worker": {"labels": {"a": "b c"}}}},
        'podOverrides.worker.labels.a: "b c" is not a valid label value. Use at most 63 letters, digits and inner - _ .',
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
        "podOverrides.worker.volumes[0]: has 0 volume sources. Set exactly one of configMap, secret, emptyDir, projected, "
        "downwardAPI, ephemeral, csi.",
    ),
    (
        {"podOverrides": {"worker": {"volumes": [{"name": "a", "mountPath": "/a", "hostPath": {"path": "/a"}}]}}},
        "podOverrides.worker.volumes[0].hostPath: Pod Security forbids hostPath volumes in jobs. Use emptyDir, or list a claim "
        "under the job's volumes.",
    ),
    (
        {"podOverrides": {"worker": {"volumes": [{"name": "tmp", "mountPath": "/a", "emptyDir": {}}]}}},
        'podOverrides.worker.volumes[0].name: "tmp" is already the name of a volume. Choose another.',
    ),
    (
        {"podOverrides": {"worker": {"volumes": [{"name": "A", "mountPath": "/a", "emptyDir": {}}]}}},
        'podOverrides.worker.volumes[0].name: "A" is not a valid name. Use lowercase letters, digits and inner hyphens, and '
        "do not begin with gpumpi-.",
    ),
    (
        {"podOverrides": {"worker": {"volumes": [{"name": "a", "mountPath": "/dev/shm", "emptyDir": {}}]}}},
        'podOverrides.worker.volumes[0].mountPath: "/dev/shm" is in use. Choose another.',
    ),
    (
        {"podOverrides": {"worker": {"volumes": [{"name": "a", "mountPath": "/etc/ssl/certs", "configMap": {"name": "a"}}]}}},
        'podOverrides.worker.volumes[0].mountPath: "/etc/ssl/certs" would hide files that the pod needs. Use a path such as '
        "/data.",
    ),
    (
        {"podOverrides": {"worker": {"volumes": [{"name": "a", "mountPath": "/usr/bin", "emptyDir": {}}]}}},
        'podOverrides.worker.volumes[0].mountPath: "/usr/bin" is a system directory. Use a path such as /data.',
    ),
    ({"envFrom": [{"prefix": "A_"}]}, "envFrom[0]: must have exactly one source. Set configMapRef or secretRef."),
    ({"workingDir": "code"}, 'workingDir: "code" is not an absolute path. Use one such as /shared/code.'),
    (
        {"workingDir": "/shared/code", "workdir": "."},
        "workingDir: cannot be combined with workdir: ranks start in the folder that workdir sends. Remove one, or let the "
        "command start with `cd` to the other folder.",
    ),
    ({"setupDeadlineSeconds": 0}, "setupDeadlineSeconds: 0 is too small. Use at least 1."),
    ({"maxRestarts": -1}, "maxRestarts: -1 is too small. Use at least 0."),
    ({"activeDeadlineSeconds": 0}, "activeDeadlineSeconds: 0 is too small. Use at least 1."),
    ({"ranks": 9}, "ranks: 9 ranks do not fit on 2 workers with 4 each. Use at most 8, or raise workers or slots."),
    ({"ranks": 5, "hosts": [0]}, "ranks: 5 ranks do not fit on 1 worker with 4 each. Use at most 4, or raise workers or slots."),
    ({"perNode": 5}, "perNode: 5 exceeds the 4 slots of a worker. Lower it, or raise slots."),
    ({"resources": {"memory": "much"}}, 'resources.memory: "much" is not a quantity. Use one such as 64Gi.'),
    ({"resources": {"cpu": 8}}, 'resources.cpu: 8 is a number. Write it in quotes: "8"'),
    # hosts
    ({"hosts": []}, "hosts: is empty. List worker indexes, starting at 0, or remove the setting."),
    ({"hosts": [2]}, "hosts[0]: 2 is not one of the 2 workers. Use 0 to 1."),
    ({"hosts": [0, 0]}, "hosts[1]: 0 is listed twice. Remove one."),
    # options that a launcher does not support
    (
        {"launcher": "torchrun", "ranks": 2},
        "ranks: is an option of mpirun, which the torchrun launcher does not use. Remove it.",
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
        "keyExchange: volume needs a writable volume, but the job has none. List a ReadWriteMany "
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
        "cleanPodPolicy: None leaves the key on the volume, because the remaining workers need the key. Use Running, or "
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
        'volumes[0].mountPath: is missing: "shard" is not a volume of the cluster. Add it. Did you mean shared?',
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
