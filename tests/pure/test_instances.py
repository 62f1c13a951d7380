"""EC2's descriptions of instance types determine the interfaces, GPUs and quotas of pools."""

import json

import pytest

from infra.facts.instance_types import InstanceType, NetworkCard, parse_line_rate
from infra.facts.service_quotas import find_vcpu_quota
from infra.plan.efa_interfaces import Interface, has_known_efa_layout, plan_efa_interfaces
from tests.pure.world import instance_type, load_described_types

EFA_TYPES = sorted(name for name, type_facts in load_described_types().items() if type_facts["NetworkInfo"].get("EfaSupported"))

FEWER_THAN_AWS_ALLOWS = {
    # AWS allows two EFA interfaces, but only one interface per card, and the primary interface occupies card 0.
    "hpc6id.32xlarge": 1,
}
FEWER_EFA_THAN_CARDS = {"i7ie.48xlarge", "i7ie.metal-48xl", "i8ge.48xlarge", "i8ge.metal-48xl", "p6-b300.48xlarge"}
"""Types on which not all network cards support EFA. Only EC2's `InterfaceTypes` field shows which cards do."""


def filter_efa_only(layout: tuple[Interface, ...]) -> list[Interface]:
    return [interface for interface in layout if interface.type == "efa-only"]


def test_instance_data_has_all_efa_types() -> None:
    assert len(EFA_TYPES) == 303


@pytest.mark.parametrize("name", EFA_TYPES)
def test_every_type_gets_maximum_number_of_efa_interfaces(name: str) -> None:
    instance = instance_type(name)
    layout = plan_efa_interfaces(instance)
    assert len(filter_efa_only(layout)) == FEWER_THAN_AWS_ALLOWS.get(name, instance.efa_maximum)


@pytest.mark.parametrize("name", EFA_TYPES)
def test_every_interface_layout_is_valid_for_ec2(name: str) -> None:
    instance = instance_type(name)
    layout = plan_efa_interfaces(instance)
    places = [(interface.network_card, interface.device) for interface in layout]
    room = {card.index: card.maximum_interfaces for card in instance.network_cards}
    assert layout[0] == Interface(0, 0, "interface"), "the primary interface must not be an EFA interface"
    assert len(set(places)) == len(places), "two interfaces share a card and device index"
    assert all(device < room[card] for card, device in places), "a card has more interfaces than it supports"
    assert all(interface.device == (1 if interface.network_card == 0 else 0) for interface in filter_efa_only(layout))


@pytest.mark.parametrize("name", EFA_TYPES)
def test_interface_layout_is_never_guessed_without_interface_types(name: str) -> None:
    described = json.loads(json.dumps(load_described_types()[name]).replace('"InterfaceTypes"', '"Unknown"'))
    blind = InstanceType.from_ec2(described)
    assert all(card.efa is None for card in blind.network_cards)
    assert has_known_efa_layout(instance_type(name))
    assert has_known_efa_layout(blind) == (name not in FEWER_EFA_THAN_CARDS)
    if has_known_efa_layout(blind):
        assert plan_efa_interfaces(blind) == plan_efa_interfaces(instance_type(name))


@pytest.mark.parametrize(
    ("name", "efa", "first"),
    [
        ("p4d.24xlarge", 4, Interface(0, 1, "efa-only")),
        ("p5.48xlarge", 32, Interface(0, 1, "efa-only")),
        ("p5e.48xlarge", 32, Interface(0, 1, "efa-only")),
        ("p5en.48xlarge", 16, Interface(0, 1, "efa-only")),
        ("p6-b200.48xlarge", 8, Interface(0, 1, "efa-only")),
        ("p6-b300.48xlarge", 16, Interface(1, 0, "efa-only")),  # the type's card 0 supports only ENA
        ("g5.8xlarge", 1, Interface(0, 1, "efa-only")),
        ("g6e.48xlarge", 4, Interface(0, 1, "efa-only")),
        ("p3dn.24xlarge", 1, Interface(0, 1, "efa-only")),
    ],
)
def test_common_types_have_expected_efa_interfaces(name: str, efa: int, first: Interface) -> None:
    layout = plan_efa_interfaces(instance_type(name))
    assert len(layout) == efa + 1
    assert layout[1] == first


def test_type_without_efa_has_only_its_primary_interface() -> None:
    assert plan_efa_interfaces(instance_type("g5.xlarge")) == (Interface(0, 0, "interface"),)


def test_p4d_has_the_documented_interface_layout() -> None:
    assert plan_efa_interfaces(instance_type("p4d.24xlarge")) == (
        Interface(0, 0, "interface"),
        Interface(0, 1, "efa-only"),
        Interface(1, 0, "efa-only"),
        Interface(2, 0, "efa-only"),
        Interface(3, 0, "efa-only"),
    )


def test_instance_type_matches_published_facts_of_p5() -> None:
    instance = instance_type("p5.48xlarge")
    assert (instance.architecture, instance.vcpus, instance.memory_mib) == ("x86_64", 192, 2097152)
    assert (instance.gpus, instance.gpu_manufacturer, instance.gpu_name, instance.gpu_memory_mib) == (8, "NVIDIA", "H100", 81920)
    assert (instance.efa_maximum, len(instance.network_cards), instance.line_rate_gbps) == (32, 32, 3200)
    assert instance.network_cards[0] == NetworkCard(0, 2, efa=True)
    assert instance.instance_store_gb == 30400
    assert "cluster" in instance.placement_strategies
    assert instance.usage_classes == {"on-demand", "spot", "capacity-block"}


@pytest.mark.parametrize(
    ("name", "gpus", "slots", "nvidia"),
    [
        ("p5.48xlarge", 8, 8, True),
        ("g5.12xlarge", 4, 4, True),
        ("m7i.large", 0, 2, False),
        ("g6f.large", 0, 2, False),  # an instance type with an eighth of a GPU
    ],
)
def test_slots_equal_gpus_or_vcpus_if_no_gpus(name: str, gpus: int, slots: int, nvidia: bool) -> None:
    instance = instance_type(name)
    assert (instance.gpus, instance.slots, instance.has_nvidia_gpus) == (gpus, slots, nvidia)


@pytest.mark.parametrize(
    ("text", "rate"),
    [("3200 Gigabit", 3200), ("4x 100 Gigabit", 400), ("37.5 Gigabit", 37.5), ("Up to 25 Gigabit", None), ("High", None)],
)
def test_line_rate_is_a_number_only_if_aws_guarantees_a_rate(text: str, rate: float | None) -> None:
    assert parse_line_rate(text) == rate


@pytest.mark.parametrize(
    ("name", "on_demand", "spot"),
    [
        ("p4d.24xlarge", "L-417A185B", "L-7212CCBC"),
        ("p3dn.24xlarge", "L-417A185B", "L-7212CCBC"),
        ("p5.48xlarge", "L-417A185B", "L-C4BD4855"),
        ("p5en.48xlarge", "L-417A185B", "L-C4BD4855"),
        ("p6-b200.48xlarge", "L-417A185B", None),
        ("g5.xlarge", "L-DB2E81BA", "L-3819A6DF"),
        ("gr6.4xlarge", "L-DB2E81BA", "L-3819A6DF"),
        ("g7e.48xlarge", "L-DB2E81BA", "L-3819A6DF"),
        ("m7i.large", "L-1216C47A", "L-34B43A08"),
        ("t3.large", "L-1216C47A", "L-34B43A08"),
        ("im4gn.large", "L-1216C47A", "L-34B43A08"),
        ("x2idn.16xlarge", "L-7295265B", "L-E3A00192"),
        ("hpc7a.96xlarge", "L-F7808C92", None),
        ("trn1.32xlarge", None, None),
        ("", None, None),
    ],
)
def test_each_type_counts_toward_its_vcpu_quota(name: str, on_demand: str | None, spot: str | None) -> None:
    quotas = [find_vcpu_quota(name, spot=False), find_vcpu_quota(name, spot=True)]
    assert [limit.code if limit else None for limit in quotas] == [on_demand, spot]


def test_every_gpu_type_has_an_on_demand_quota() -> None:
    gpu_types = [name for name in load_described_types() if instance_type(name).has_nvidia_gpus]
    assert len(gpu_types) > 40
    assert [name for name in gpu_types if find_vcpu_quota(name, spot=False) is None] == []
