"""Mistakes in stack files of EC2 clusters, with their full messages."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from infra.facts.ec2_cluster import find_newest_ami
from infra.facts.model import Ami, CapacityReservation, Facts
from infra.settings.stack import Settings
from infra.validation import run_rules
from tests.pure.world import RESERVATION, account_facts, ec2_settings, existing_network, load_settings, pool

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl ada@example.com"
WORKERS = pool("workers", "g6.48xlarge", 4)
NO_KUBERNETES = "Remove it: EC2 clusters run without Kubernetes."
NO_PORT = "Remove it and use `scripts/cluster ssh`, which needs no open port."


def make_ssh_values(**more: Any) -> dict[str, Any]:
    return {"target": {"ssh": {"publicKeys": [KEY], **more}}}


OFFLINE: dict[str, tuple[Settings, list[str]]] = {
    "fine": (ec2_settings(**make_ssh_values(cidrs=["5.10.20.0/24"])), []),
    "a platform": (
        ec2_settings(platform={"queue": False}),
        ["platform: requires Kubernetes. Remove it: EC2 clusters run without Kubernetes."],
    ),
    "labels": (
        ec2_settings({**WORKERS, "labels": {"a": "b"}}),
        ["pools[0].labels: requires Kubernetes. Remove it: EC2 clusters run without Kubernetes."],
    ),
    "AMI of a pool": (
        ec2_settings({**WORKERS, "amiId": "ami-0123456789abcdef0"}),
        ["pools[0].amiId: applies only to EKS. Set target.amiId instead: the head node and the workers share one AMI."],
    ),
    "two pools": (
        ec2_settings(WORKERS, pool("more", "g6.48xlarge", 1)),
        ["pools: has 2 entries, but an EC2 cluster has one group of workers. Create another stack for the others."],
    ),
    "a bad user": (
        ec2_settings(target={"user": "Ada L"}),
        [
            'target.user: "Ada L" is not a valid Linux user name. Use at most 32 lowercase letters, digits, - and _, '
            "starting with a letter."
        ],
    ),
    "root": (
        ec2_settings(target={"user": "root"}),
        ['target.user: "root" is a system user. Choose another name, such as mpiuser.'],
    ),
    "no key": (
        ec2_settings(target={"ssh": {"publicKeys": ["ada"]}}),
        ['target.ssh.publicKeys[0]: "ada" is not a public SSH key. Copy the line from a file such as ~/.ssh/id_ed25519.pub.'],
    ),
    "everybody": (
        ec2_settings(**make_ssh_values(cidrs=["0.0.0.0/0"])),
        [
            'target.ssh.cidrs[0]: "0.0.0.0/0" covers the whole internet. List your own addresses, or remove this CIDR '
            "and use Session Manager.",
        ],
    ),
    "SSH into an existing network": (
        ec2_settings(network=existing_network(), **make_ssh_values(cidrs=["5.10.20.0/24"])),
        [
            "target.ssh.cidrs: requires a public subnet for the head node, but network.subnetIds are private. Remove it "
            "and use `scripts/cluster ssh`, which needs no open port."
        ],
    ),
    "SSH into a private network": (
        ec2_settings(network={"natGateways": "none", "interfaceEndpoints": True}, **make_ssh_values(cidrs=["5.10.20.0/24"])),
        [
            "target.ssh.cidrs: requires a public subnet for the head node, but natGateways is none. Remove it and use "
            "`scripts/cluster ssh`, which needs no open port."
        ],
    ),
    "open SSH port without keys": (
        ec2_settings(target={"ssh": {"cidrs": ["5.10.20.0/24"]}}),
        ["target.ssh.publicKeys: required because cidrs opens the SSH port. List the keys that may log in."],
    ),
    "no AMI's id": (
        ec2_settings(target={"amiId": "ubuntu"}),
        ['target.amiId: "ubuntu" is not the ID of an AMI. Use one such as ami-0123456789abcdef0.'],
    ),
    "whole internet as two CIDR blocks": (
        ec2_settings(**make_ssh_values(cidrs=["0.0.0.0/1", "128.0.0.0/1"])),
        [
            "target.ssh.cidrs: the entries together cover the whole internet. List your own addresses, or remove this CIDR "
            "and use Session Manager."
        ],
    ),
    "key that ends in a newline": (ec2_settings(target={"ssh": {"publicKeys": [f"{KEY}\n"]}}), []),
    "half a key": (
        ec2_settings(target={"ssh": {"publicKeys": [KEY[:60]]}}),
        [
            f'target.ssh.publicKeys[0]: "{KEY[:60]}" is not a public SSH key. Copy the line from a file such as '
            "~/.ssh/id_ed25519.pub."
        ],
    ),
    "one zone": (ec2_settings(network={"zones": 1}), []),
}


@pytest.mark.parametrize("case", OFFLINE)
def test_each_mistake_gets_one_error_with_a_fix(case: str) -> None:
    settings, expected = OFFLINE[case]
    assert [str(problem) for problem in run_rules(settings)] == expected


def test_ec2_cluster_without_workers_gets_an_example_to_add() -> None:
    settings = load_settings({"target": {"kind": "ec2"}}, stack="test", region="us-west-2")
    example = "`pools: [{name: workers, instanceType: g6.48xlarge, maxSize: 4}]`"
    assert [str(problem) for problem in run_rules(settings)] == [f"pools: is missing. Define the workers, such as {example}."]


def find_problems(settings: Settings, facts: Facts) -> list[str]:
    return [str(problem) for problem in run_rules(settings, facts)]


def test_valid_ec2_settings_have_no_problems() -> None:
    for settings in (ec2_settings(), ec2_settings(pool("workers", "c7i.large", 8), target={"headNodeType": "c7i.large"})):
        assert find_problems(settings, account_facts(settings)) == []


def test_account_without_an_ami_is_reported_with_the_guide_to_build_one() -> None:
    settings = ec2_settings()
    tags = "gpumpi:ami=ec2 and gpumpi:openmpi=5"
    assert find_problems(settings, replace(account_facts(settings), ami=None)) == [
        f"target.amiId: is missing, and us-west-2 of account 123456789012 has no x86_64 AMI with the tags {tags}. "
        "Build an AMI (docs/guides/amis.md), or set your own."
    ]


def test_error_names_deleted_ami() -> None:
    settings = ec2_settings(target={"amiId": "ami-0123456789abcdef0"})
    assert find_problems(settings, replace(account_facts(settings), ami=None)) == [
        'target.amiId: "ami-0123456789abcdef0" was not found in us-west-2 of account 123456789012. Share the AMI '
        "with this account, use another AMI, or remove the setting."
    ]


def test_head_node_and_workers_must_have_the_same_architecture() -> None:
    settings = ec2_settings(target={"headNodeType": "c7g.xlarge"})
    observed = account_facts(settings)
    assert find_problems(settings, observed) == [
        'pools[0].instanceType: "g6.48xlarge" is x86_64, but the head node\'s c7g.xlarge is arm64. Choose types with '
        "the same architecture, because they share an AMI."
    ]


def test_head_node_type_must_be_offered_in_the_zone_of_the_workers() -> None:
    settings = ec2_settings({**WORKERS, "zone": "us-west-2c"})
    observed = account_facts(settings)
    observed = replace(observed, offerings={**observed.offerings, "c7i.2xlarge": frozenset({"us-west-2a"})})
    assert find_problems(replace_zones(settings), observed) == [
        'target.headNodeType: "c7i.2xlarge" is not offered in us-west-2c, where the workers are. Choose another type, '
        "or a zone that offers both: us-west-2a."
    ]


def replace_zones(settings: Settings) -> Settings:
    return settings.model_copy(update={"network": settings.network.model_copy(update={"zones": ("us-west-2c",)})})


def test_head_node_and_workers_share_the_quota() -> None:
    settings = ec2_settings(target={"headNodeType": "g6.48xlarge"})
    observed = account_facts(settings)
    messages = find_problems(settings, replace(observed, quotas={**observed.quotas, "L-DB2E81BA": 900.0}))
    assert len(messages) == 1 and "1 g6.48xlarge and 4 g6.48xlarge need 960 vCPUs" in messages[0]


ODCR = {"kind": "targeted-odcr", "reservationId": RESERVATION}
BLOCK = {"kind": "capacity-block", "reservationId": RESERVATION}
RESERVED: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "enough": ({"capacity": ODCR, "maxSize": 3, "desiredSize": 3}, {}, []),
    "one too few": (
        {"capacity": ODCR, "maxSize": 4},
        {},
        [f"pools[0].maxSize: 4 is too many: {RESERVATION} has 4 instances, one of them for the head node. Lower it."],
    ),
    "others use it": (
        {"capacity": ODCR, "maxSize": 3, "desiredSize": 2},
        {"available": 2},
        [
            f"pools[0].desiredSize: 2 nodes and the head node exceed the 2 free instances in {RESERVATION}. Use at most 1.",
        ],
    ),
    "reservation used up by others": (
        {"capacity": ODCR, "maxSize": 3},
        {"available": 0},
        [f'target.headNodeType: "p5.48xlarge" cannot start: {RESERVATION} has no free instance. Choose another type.'],
    ),
    "not yet": (
        {"capacity": BLOCK, "maxSize": 3},
        {"kind": "capacity-block", "state": "scheduled"},
        [
            f'target.headNodeType: "p5.48xlarge" cannot start while {RESERVATION} is scheduled. Create the cluster once '
            "the reservation is active, or choose another type: the head node then only launches jobs."
        ],
    ),
}


@pytest.mark.parametrize("case", RESERVED)
def test_head_node_that_runs_ranks_uses_the_reservation_of_the_workers(case: str) -> None:
    more, changed, expected = RESERVED[case]
    workers = {**pool("workers", "p5.48xlarge", 4), **more}
    settings = ec2_settings(workers, target={"headNodeType": "p5.48xlarge"})
    reservation = replace(CapacityReservation(RESERVATION, "default", "active", "p5.48xlarge", "us-west-2b", 4, 4), **changed)
    assert find_problems(settings, replace(account_facts(settings), reservations={RESERVATION: reservation})) == expected


def test_head_node_that_only_launches_needs_no_reserved_instance() -> None:
    settings = ec2_settings({**pool("workers", "p5.48xlarge", 4), "capacity": ODCR})
    reservation = CapacityReservation(RESERVATION, "default", "active", "p5.48xlarge", "us-west-2b", 4, 4)
    assert find_problems(settings, replace(account_facts(settings), reservations={RESERVATION: reservation})) == []


def test_type_with_a_fraction_of_a_gpu_is_refused() -> None:
    settings = ec2_settings(pool("workers", "g6f.xlarge", 2))
    assert find_problems(settings, account_facts(settings)) == [
        'pools[0].instanceType: "g6f.xlarge" has only a fraction of a GPU (L4). Choose a type with NVIDIA GPUs, such '
        "as g5.xlarge, or one without GPUs."
    ]


DLAMI = "Deep Learning Base OSS Nvidia Driver GPU AMI ({}) 20261006"


def read_ami(**tags: str) -> Ami:
    """Return the account's only AMI as the program reads it from EC2."""
    image = {"ImageId": "ami-1", "Architecture": "x86_64", "RootDeviceName": "/dev/sda1", "CreationDate": "2026-10-07"}
    image |= {"Tags": [{"Key": f"gpumpi:{key}", "Value": value} for key, value in tags.items()]}
    clients: Any = SimpleNamespace(ec2=SimpleNamespace(describe_images=lambda **_: {"Images": [image]}))
    ami = find_newest_ami(clients, "x86_64", 5)
    assert ami is not None
    return ami


def test_lustre_is_refused_with_an_ami_whose_kernel_has_no_lustre_client() -> None:
    settings = ec2_settings(storage={"fsx": {}})
    noble = read_ami(source=DLAMI.format("Ubuntu 24.04"))
    assert find_problems(settings, account_facts(settings, ami=noble)) == [
        "storage.fsx: the AMI ami-1 was built from AWS's AMI for Ubuntu 24.04, whose kernel 7.0 has no Lustre client. Build one "
        "with `-var base=ubuntu-22.04` (docs/guides/amis.md), or use only storage.efs."
    ]
    assert find_problems(ec2_settings(), account_facts(settings, ami=noble)) == []
    for image in (read_ami(source=DLAMI.format("Ubuntu 22.04")), read_ami(ami="ec2")):
        assert find_problems(settings, account_facts(settings, ami=image)) == []
