"""Pool mistakes found with facts from AWS: types, zones, images, placement groups and reservations."""

from datetime import UTC, datetime, timedelta

from infra.facts.model import ExistingPool, Zone
from tests.pure.mistakes.case import (
    BLOCK,
    NO_SPOT,
    ODCR,
    WHERE,
    A,
    B,
    C,
    D,
    FactsCase,
    make_existing_facts,
    make_reservation_facts,
)
from tests.pure.world import (
    IMAGE,
    RESERVATION,
    ZONES,
    existing_network,
    instance_type,
    pool,
)

ENDS = datetime(2026, 12, 1, 11, 30, tzinfo=UTC)

CASES: dict[str, FactsCase] = {
    # types
    "unknown type": (
        {},
        [pool(instance_type="g5.xlarg")],
        {},
        ['pools[0].instanceType: "g5.xlarg" is not an instance type in us-west-2. Did you mean g5.xlarge?'],
    ),
    "instance type that EC2 no longer offers": (
        {},
        [pool(instance_type="p3.16xlarge")],
        {},
        [
            'pools[0].instanceType: "p3.16xlarge" is not an instance type in us-west-2. '
            "Did you mean p3dn.24xlarge, p4d.24xlarge or p4de.24xlarge?"
        ],
    ),
    "instance type that the Region does not offer": (
        {},
        [pool(instance_type="p5.48xlarge")],
        {
            "instance_types": {"m7i.large": instance_type("m7i.large")},
            "type_names": frozenset({"g5.48xlarge", "p4d.24xlarge", "p4de.24xlarge", "p5en.48xlarge", "m7i.large"}),
        },
        [
            'pools[0].instanceType: "p5.48xlarge" is not an instance type in us-west-2. '
            "Did you mean p5en.48xlarge, p4d.24xlarge or p4de.24xlarge?"
        ],
    ),
    "pool that grew without a placement group": (
        {},
        [pool(instance_type="p5.48xlarge", maxSize=16)],
        make_existing_facts("1.35", (A, B), train=ExistingPool(A, 0, 0, 1, instance_type="p5.48xlarge", placement="apart")),
        [
            "warning: pools[0].placementGroup: train was created with maxSize 1, so auto does not put its nodes "
            "into a cluster placement group, and EFA between nodes is slower. Set your own cluster placement group (rolls the "
            "nodes), or rename the pool (replaces it)."
        ],
    ),
    "nothing like a type": (
        {},
        [pool(instance_type="gpu")],
        {},
        ['pools[0].instanceType: "gpu" is not an instance type in us-west-2. Choose another.'],
    ),
    "unknown system type": (
        {"target": {"system": {"instanceType": "m7i.larg"}}},
        [],
        {},
        ['target.system.instanceType: "m7i.larg" is not an instance type in us-west-2. Did you mean m7i.large?'],
    ),
    "instance type with a fraction of a GPU": (
        {},
        [pool(instance_type="g6f.large")],
        {},
        [
            'pools[0].instanceType: "g6f.large" has only a fraction of a GPU (L4). Choose a type with NVIDIA GPUs, such '
            "as g5.xlarge, or one without GPUs."
        ],
    ),
    "GPUs for the system": (
        {"target": {"system": {"instanceType": "g5.xlarge"}}},
        [],
        {},
        ['target.system.instanceType: "g5.xlarge" has GPUs. Choose a type without GPUs, such as m7i.large.'],
    ),
    "EFA on an instance type without EFA": (
        {},
        [pool(instance_type="g5.xlarge", efa=True)],
        {},
        ["pools[0].efa: is true, but g5.xlarge has no EFA. Choose a type with EFA, such as g5.8xlarge, or remove efa."],
    ),
    # zones
    "zone that is none": (
        {"network": {"zones": ["us-west-2a", "us-west-2e"]}},
        [],
        {},
        [
            'network.zones[1]: "us-west-2e" is not a zone of us-west-2 that EKS can use. Choose from us-west-2a, '
            "us-west-2b, us-west-2c and us-west-2d."
        ],
    ),
    "more zones than the Region has": (
        {"network": {"zones": 4}},
        [],
        {"zones": (Zone(A, "usw2-az1"), Zone(B, "usw2-az2"))},
        ["network.zones: is 4, but EKS can use only 2 in us-west-2: us-west-2a and us-west-2b"],
    ),
    "type not offered in the pool's zone": (
        {},
        [pool(zone=A)],
        {"offerings": {"g5.8xlarge": frozenset({B, C}), "m7i.large": frozenset(ZONES)}},
        ['pools[0].zone: "us-west-2a" does not offer g5.8xlarge. Choose us-west-2b or us-west-2c.'],
    ),
    "type not offered in the listed zones": (
        {"network": {"zones": [A, B]}},
        [pool()],
        {"offerings": {"g5.8xlarge": frozenset({D}), "m7i.large": frozenset(ZONES)}},
        [
            'pools[0].instanceType: "g5.8xlarge" is not offered in the VPC\'s zones, us-west-2a and us-west-2b. Add '
            "us-west-2d to network.zones."
        ],
    ),
    "type not offered in the subnets' zones": (
        {"network": existing_network()},
        [pool()],
        {"offerings": {"g5.8xlarge": frozenset({C, D}), "m7i.large": frozenset(ZONES)}},
        [
            'pools[0].instanceType: "g5.8xlarge" is not offered in the VPC\'s zones, us-west-2a and us-west-2b. Add a '
            "subnet in us-west-2c or us-west-2d."
        ],
    ),
    "type offered nowhere": (
        {},
        [pool()],
        {"offerings": {"g5.8xlarge": frozenset(), "m7i.large": frozenset(ZONES)}},
        ['pools[0].instanceType: no zone of us-west-2 that EKS can use offers "g5.8xlarge". Choose another type or region.'],
    ),
    "pool zone outside the VPC": (
        {"network": existing_network()},
        [pool(zone=D)],
        {},
        ['pools[0].zone: "us-west-2d" is not a zone of the VPC. Choose us-west-2a or us-west-2b.'],
    ),
    "new type that the pool's zone does not offer": (
        {},
        [pool()],
        {
            "offerings": {"g5.8xlarge": frozenset({B}), "m7i.large": frozenset(ZONES)},
            **make_existing_facts("1.35", (A, B), train=ExistingPool(A, 0, 0, 2)),
        },
        [
            'pools[0].instanceType: "g5.8xlarge" is not offered in us-west-2a, where the pool is. To recreate the '
            "pool, rename it or set its zone."
        ],
    ),
    "system type not offered": (
        {"network": existing_network()},
        [],
        {"offerings": {"m7i.large": frozenset({D})}},
        [
            'target.system.instanceType: "m7i.large" is not offered in the VPC\'s zones, us-west-2a and us-west-2b. Choose '
            "another."
        ],
    ),
    # images
    "no such image": (
        {},
        [pool(amiId=IMAGE)],
        {"not_found": frozenset({IMAGE})},
        [f'pools[0].amiId: "{IMAGE}" was not found in {WHERE}. Share it, or use another.'],
    ),
    "image of another architecture": (
        {},
        [pool(amiId=IMAGE)],
        {"images": {IMAGE: "arm64"}},
        [f"pools[0].amiId: {IMAGE} is for arm64, but g5.8xlarge is x86_64. Use an AMI of that architecture."],
    ),
    "type with arm64 CPUs": (
        {},
        [pool(instance_type="g5g.xlarge")],
        {},
        [
            'warning: pools[0].instanceType: "g5g.xlarge" has arm64 CPUs, but this project\'s AMIs and images are for x86-64. '
            "Jobs on such a pool need images that also contain arm64 programs, because a job's launcher may run on another pool."
        ],
    ),
    # placement groups
    "no such placement group": (
        {},
        [pool(placementGroup="mine")],
        {"not_found": frozenset({"mine"})},
        [f'pools[0].placementGroup: "mine" does not exist in {WHERE}. Create it, or use auto.'],
    ),
    "placement group that spreads": (
        {},
        [pool(placementGroup="mine")],
        {"placement_groups": {"mine": "spread"}},
        ['pools[0].placementGroup: "mine" has the strategy spread. Use a cluster placement group, or auto.'],
    ),
    "placement group with a reservation": (
        {},
        [pool(instance_type="p5.48xlarge", placementGroup="mine", capacity=ODCR)],
        {"placement_groups": {"mine": "cluster"}, **make_reservation_facts()},
        [
            'pools[0].placementGroup: "mine" cannot hold the reserved instances. Remove it: the reservation determines '
            "where the instances run."
        ],
    ),
    "reservation created in a placement group": (
        {},
        [pool(instance_type="p5.48xlarge", capacity=ODCR)],
        make_reservation_facts(placement_group="theirs"),
        [f"pools[0].placementGroup: {RESERVATION} was created in a placement group. Set placementGroup: theirs."],
    ),
    # reservations
    "no such reservation": (
        {},
        [pool(instance_type="p5.48xlarge", capacity=ODCR)],
        {"not_found": frozenset({RESERVATION})},
        [f'pools[0].capacity.reservationId: "{RESERVATION}" does not exist in {WHERE} and is not shared with the account'],
    ),
    "capacity block configured as an on-demand reservation": (
        {},
        [pool(instance_type="p5.48xlarge", capacity=ODCR)],
        make_reservation_facts(kind="capacity-block"),
        [f"pools[0].capacity.kind: {RESERVATION} is a capacity block. Use capacity-block."],
    ),
    "on-demand reservation configured as a capacity block": (
        {},
        [pool(instance_type="p5.48xlarge", capacity=BLOCK)],
        make_reservation_facts(),
        [f"pools[0].capacity.kind: {RESERVATION} is not a capacity block. Use targeted-odcr."],
    ),
    "Capacity Block that is about to end": (
        {},
        [pool(instance_type="p5.48xlarge", capacity=BLOCK)],
        make_reservation_facts(kind="capacity-block", end=ENDS, read_at=ENDS - timedelta(minutes=45)),
        [
            f"warning: pools[0].capacity.reservationId: {RESERVATION} ends at 2026-12-01 11:30 UTC: EC2 starts terminating "
            "its instances 30 minutes earlier. Extend the block, or use another one."
        ],
    ),
    "reservation too small": (
        {},
        [pool(instance_type="p5.48xlarge", maxSize=5, capacity=ODCR)],
        make_reservation_facts(),
        [f"pools[0].maxSize: 5 is too many: {RESERVATION} has 4 instances. Lower it."],
    ),
    "reservation too small for its pools": (
        {},
        [
            pool("a", instance_type="p5.48xlarge", maxSize=3, capacity=ODCR),
            pool("b", instance_type="p5.48xlarge", maxSize=2, capacity=ODCR),
        ],
        make_reservation_facts(),
        [f"pools[1].maxSize: 2 is too many: {RESERVATION} has 4 instances for a and b, which can have 5 together. Lower it."],
    ),
    "reservation outside the configured zone": (
        {},
        [pool(instance_type="p5.48xlarge", zone=A, capacity=ODCR)],
        make_reservation_facts(),
        [f'pools[0].zone: "us-west-2a" is not the zone of {RESERVATION}. Use us-west-2b, or remove the setting.'],
    ),
    "reservation outside the zones of an existing VPC": (
        {"network": existing_network()},
        [pool(instance_type="p5.48xlarge", capacity=ODCR)],
        make_reservation_facts(zone=D),
        [
            f"pools[0].capacity.reservationId: {RESERVATION} is in us-west-2d, but the VPC's zones are us-west-2a and "
            "us-west-2b. Add a subnet in us-west-2d, or use another reservation."
        ],
    ),
    "reservation outside the zones of a new VPC": (
        {"network": {"zones": [A, B]}},
        [pool(instance_type="p5.48xlarge", capacity=BLOCK)],
        make_reservation_facts(kind="capacity-block", zone=C),
        [
            f"pools[0].capacity.reservationId: {RESERVATION} is in us-west-2c, but the VPC's zones are us-west-2a and "
            "us-west-2b. Add us-west-2c to network.zones, or use another reservation."
        ],
    ),
    "reservation outside the pool's current zone": (
        {},
        [pool(instance_type="p5.48xlarge", capacity=ODCR)],
        {**make_reservation_facts(), **make_existing_facts("1.35", (A, B), train=ExistingPool(A, 0, 0, 2))},
        [
            f"pools[0].capacity.reservationId: {RESERVATION} is in us-west-2b, but the pool is in us-west-2a. To "
            "recreate the pool, rename it or set zone: us-west-2b."
        ],
    ),
    "reservation of another type": (
        {},
        [pool(instance_type="p4d.24xlarge", capacity=ODCR)],
        make_reservation_facts(),
        [
            f"pools[0].capacity.reservationId: {RESERVATION} reserves p5.48xlarge, but the pool uses p4d.24xlarge. Use "
            "the same instance type for both."
        ],
    ),
    "reservation that is over": (
        {},
        [pool(instance_type="p5.48xlarge", capacity=BLOCK)],
        make_reservation_facts(kind="capacity-block", state="expired"),
        [f"pools[0].capacity.reservationId: {RESERVATION} is expired. Use an active reservation."],
    ),
    "reservation that has not started": (
        {},
        [pool(instance_type="p5.48xlarge", desiredSize=2, capacity=BLOCK)],
        make_reservation_facts(kind="capacity-block", state="scheduled"),
        [f"pools[0].desiredSize: 2 nodes cannot start while {RESERVATION} is scheduled. Use 0 until the reservation is active."],
    ),
    "reservation that others use": (
        {},
        [pool(instance_type="p5.48xlarge", minSize=2, capacity=ODCR)],
        make_reservation_facts(available=1),
        [f"pools[0].minSize: 2 nodes exceed the 1 free instances in {RESERVATION}. Use at most 1."],
    ),
    "type not sold as spot": (
        {},
        [pool(instance_type="p5.48xlarge", capacity={"kind": "spot"})],
        {"instance_types": {"m7i.large": instance_type("m7i.large"), "p5.48xlarge": NO_SPOT}},
        ["pools[0].capacity.kind: p5.48xlarge is not sold as spot. Use capacity-block or on-demand."],
    ),
    "type not sold as a capacity block": (
        {},
        [pool(capacity=BLOCK)],
        make_reservation_facts(kind="capacity-block", instance_type="g5.8xlarge"),
        ["pools[0].capacity.kind: g5.8xlarge is not sold as capacity-block. Use on-demand or spot."],
    ),
}
