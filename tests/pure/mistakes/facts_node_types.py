"""Instance types on which nodes cannot do their work, found with facts from AWS."""

from dataclasses import replace

from tests.pure.mistakes.case import FactsCase
from tests.pure.world import instance_type, pool

GB200 = replace(instance_type("p5.48xlarge"), name="p6e-gb200.36xlarge", architecture="arm64")
GRACE = replace(GB200, name="p7g.48xlarge")
SYSTEM = "target.system.instanceType"
PLATFORM = {"install": None}


def make_small_system_case(name: str, left: str, size: str, **platform: object) -> FactsCase:
    message = (
        f'{SYSTEM}: "{name}" is too small: a launcher needs 250m CPU and 1024 MiB, but a node has only {left} left. Use a type '
        f"with at least {size}, such as m7i.large."
    )
    access = {"endpointAccess": {"publicCidrs": ["5.10.20.0/24"]}}
    return ({"target": {**access, "system": {"instanceType": name}}, "platform": {**PLATFORM, **platform}}, [], {}, [message])


def make_small_pool_case(name: str, left: int, gib: int) -> FactsCase:
    message = (
        f'pools[0].instanceType: "{name}" is too small: a worker needs at least 256 MiB, but a node has only {left} MiB left. '
        f"Use a type with at least {gib} GiB, such as g5.xlarge."
    )
    target = {"endpointAccess": {"publicCidrs": ["5.10.20.0/24"]}}
    return ({"target": target, "platform": PLATFORM}, [pool(instance_type=name)], {}, [message])


def format_ultraserver_message(name: str) -> str:
    return (
        f'"{name}" shares an NVLink domain with other instances, which needs IMEX, a ComputeDomain and arm64 images. This '
        "program does not support them yet. Choose a type such as p6-b200.48xlarge."
    )


CASES: dict[str, FactsCase] = {
    "system node without memory for launchers": make_small_system_case("t3.small", "1130m and 0 MiB", "2 vCPUs and 4 GiB"),
    "system node of a free tier": make_small_system_case("t2.micro", "140m and 0 MiB", "2 vCPUs and 4 GiB"),
    "system node with one vCPU": make_small_system_case("m3.medium", "140m and 1529 MiB", "2 vCPUs and 4 GiB"),
    "system node with one vCPU and much memory": make_small_system_case("r7a.medium", "140m and 5598 MiB", "2 vCPUs and 4 GiB"),
    "worker node without memory": make_small_pool_case("t2.micro", 0, 2),
    "worker node with two vCPUs and without memory": make_small_pool_case("t3.nano", 0, 2),
    "worker node with almost no memory": make_small_pool_case("c1.medium", 98, 2),
    "system nodes with macOS": (
        {"target": {"system": {"instanceType": "mac1.metal"}}},
        [],
        {},
        [f'{SYSTEM}: "mac1.metal" runs only macOS, but nodes run Linux. Choose a type such as m7i.large.'],
    ),
    "pool with macOS on Apple's CPUs": (
        {},
        [pool(instance_type="mac2-m2pro.metal")],
        {},
        ['pools[0].instanceType: "mac2-m2pro.metal" runs only macOS, but nodes run Linux. Choose a type such as m7i.large.'],
    ),
    "pool with Neuron accelerators": (
        {},
        [pool(instance_type="trn1.2xlarge")],
        {},
        [
            'warning: pools[0].instanceType: "trn1.2xlarge" has AWS Neuron accelerators, but this program does not install the '
            "Neuron device plugin, so jobs can use only the CPUs. Choose a type with NVIDIA GPUs, such as g5.xlarge, or one "
            "without accelerators."
        ],
    ),
    "system nodes with arm64 CPUs": (
        {"target": {"system": {"instanceType": "m7g.large"}}},
        [pool()],
        {},
        [
            f'warning: {SYSTEM}: "m7g.large" has arm64 CPUs, but this project\'s AMIs and images are for x86-64. Launchers run '
            "on the system nodes with the job's image, so every MPI job needs an image that also "
            "contains arm64 programs. Use a type such as m7i.large, unless your images contain arm64 programs."
        ],
    ),
}

ULTRASERVERS = {
    "a GB200 UltraServer": GB200,
    "the next generation": replace(GB200, name="p6e-gb300.36xlarge"),
    "the name of the whole UltraServer": replace(GB200, name="u-p6e-gb200x72.metal", efa_maximum=0),
    "an unknown family with Grace CPUs": GRACE,
}
"""Types that moto's data lacks."""
