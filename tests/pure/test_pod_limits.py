"""Maximum number of pods per node: EKS's default, or less if the node has too few IP addresses."""

import pytest

from infra.plan.efa_interfaces import plan_efa_interfaces
from infra.plan.node_capacity import compute_default_max_pods, compute_max_pods
from tests.pure.world import instance_type

# https://github.com/awslabs/amazon-eks-ami/blob/264120506f12/nodeadm/internal/kubelet/eni-max-pods.txt
IN_AMI = {
    "m7i.large": 29,
    "g5.xlarge": 58,
    "g5.48xlarge": 345,
    "g6.12xlarge": 234,
    "g6e.48xlarge": 492,
    "p4d.24xlarge": 737,
    "p5.4xlarge": 118,
    "p5.48xlarge": 100,
    "p5e.48xlarge": 100,
    "p5en.48xlarge": 198,
    "p6-b200.48xlarge": 198,
    "hpc6id.32xlarge": 51,
}


@pytest.mark.parametrize("name", IN_AMI)
def test_memory_reservation_assumes_the_pod_count_of_the_eks_ami(name: str) -> None:
    assert compute_default_max_pods(instance_type(name)) == IN_AMI[name]


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("p5.48xlarge", 51),  # EFA uses one of the two interfaces of card 0, which leaves 49 addresses for pods
        ("p5e.48xlarge", 51),
        ("p5.4xlarge", 89),
        ("p5en.48xlarge", None),  # three interfaces have addresses for 147 pods
        ("p6-b200.48xlarge", None),
        ("p6-b300.48xlarge", None),
        ("p4d.24xlarge", None),
        ("g5.8xlarge", None),
    ],
)
def test_max_pods_is_limited_by_available_ip_addresses(name: str, limit: int | None) -> None:
    instance = instance_type(name)
    assert compute_max_pods(instance, plan_efa_interfaces(instance)) == limit


def test_max_pods_is_not_overridden_without_efa() -> None:
    assert compute_max_pods(instance_type("p5.48xlarge"), ()) is None
