"""Rules that ask what AWS has: each row is one mistake and the whole sentence it gets."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from infra import validation
from infra.facts import Caller, Existing, ExistingPool, Facts, FileSystem, OwnVpc, Reservation, Zone
from infra.platform.manifests import Manifests
from infra.settings import Settings
from infra.versions import addon_versions
from tests.pure.world import (
    ACCOUNT,
    ADMIN,
    FILE_SYSTEM,
    IMAGE,
    REGION,
    RESERVATION,
    VPC,
    ZONES,
    existing_network,
    facts,
    instance_type,
    pool,
    settings,
    subnet,
    subnet_id,
    subnets,
    vpc,
)

Case = tuple[dict[str, Any], list[dict[str, Any]], dict[str, Any], list[str]]
"""Sections of the stack, its pools, what is different in the facts, the problems."""

ODCR = {"kind": "targeted-odcr", "reservationId": RESERVATION}
BLOCK = {"kind": "capacity-block", "reservationId": RESERVATION}
NO_SPOT = replace(instance_type("p5.48xlarge"), usage_classes=frozenset({"on-demand", "capacity-block"}))
WHERE = f"{REGION} of account {ACCOUNT}"
A, B, C, D = ZONES


def reserved(**more: Any) -> dict[str, Any]:
    """Facts with a reservation that suits `pool(instance_type="p5.48xlarge")`."""
    found = Reservation(RESERVATION, "default", "active", "p5.48xlarge", B, 4, 4)
    return {"reservations": {RESERVATION: replace(found, **more)}}


def existing(version: str | None = None, zones: tuple[str, ...] = (), **pools: ExistingPool) -> dict[str, Any]:
    return {"existing": Existing(version, zones, pools)}


def live(vpc_id: str = VPC, *, own: bool = True, zones: tuple[str, ...] = (A, B)) -> dict[str, Any]:
    """Facts with a cluster in a VPC."""
    made = OwnVpc(vpc_id, "10.0.0.0/16") if own else None
    found = Existing("1.35", zones if own else (), cluster_vpc_id=vpc_id, cluster_zones=zones, own_vpc=made)
    return {"existing": found}


def addons(**changed: str) -> dict[str, frozenset[str]]:
    versions = {**addon_versions("1.35"), **{name.replace("_", "-"): version for name, version in changed.items()}}
    return {name: frozenset({version}) for name, version in versions.items()}


CASES: dict[str, Case] = {
    # types
    "unknown type": (
        {},
        [pool(instance_type="g5.xlarg")],
        {},
        ['pools[0].instanceType: "g5.xlarg" is not an instance type in us-west-2; did you mean g5.xlarge?'],
    ),
    "type that EC2 no longer has": (
        {},
        [pool(instance_type="p3.16xlarge")],
        {},
        [
            'pools[0].instanceType: "p3.16xlarge" is not an instance type in us-west-2; '
            "did you mean g6.16xlarge, g5.16xlarge or g6e.16xlarge?"
        ],
    ),
    "nothing like a type": (
        {},
        [pool(instance_type="gpu")],
        {},
        ['pools[0].instanceType: "gpu" is not an instance type in us-west-2; choose another'],
    ),
    "unknown system type": (
        {"target": {"system": {"instanceType": "m7i.larg"}}},
        [],
        {},
        ['target.system.instanceType: "m7i.larg" is not an instance type in us-west-2; did you mean m7i.large?'],
    ),
    "no GPUs": (
        {},
        [pool(instance_type="m7i.large")],
        {},
        ['pools[0].instanceType: "m7i.large" has no GPUs; choose a type with NVIDIA GPUs, like g5.xlarge'],
    ),
    "a part of a GPU": (
        {},
        [pool(instance_type="g6f.large")],
        {},
        ['pools[0].instanceType: "g6f.large" has only a part of a GPU (L4); choose a type with NVIDIA GPUs, like g5.xlarge'],
    ),
    "GPUs for the system": (
        {"target": {"system": {"instanceType": "g5.xlarge"}}},
        [],
        {},
        ['target.system.instanceType: "g5.xlarge" has GPUs; choose a type without, like m7i.large'],
    ),
    "EFA of a type without": (
        {},
        [pool(instance_type="g5.xlarge", efa=True)],
        {},
        ["pools[0].efa: is true, but g5.xlarge has no EFA; choose a type that has, like g5.8xlarge, or remove efa"],
    ),
    # zones
    "zone that is none": (
        {"network": {"zones": ["us-west-2a", "us-west-2e"]}},
        [],
        {},
        [
            'network.zones[1]: "us-west-2e" is not a zone of us-west-2 that EKS can use; '
            "choose from us-west-2a, us-west-2b, us-west-2c and us-west-2d"
        ],
    ),
    "more zones than the region has": (
        {"network": {"zones": 4}},
        [],
        {"zones": (Zone(A, "usw2-az1"), Zone(B, "usw2-az2"))},
        ["network.zones: asks for 4, but us-west-2 has 2 that EKS can use: us-west-2a and us-west-2b"],
    ),
    "type not offered in the pool's zone": (
        {},
        [pool(zone=A)],
        {"offerings": {"g5.8xlarge": frozenset({B, C}), "m7i.large": frozenset(ZONES)}},
        ['pools[0].zone: "us-west-2a" does not offer g5.8xlarge; choose us-west-2b or us-west-2c'],
    ),
    "type not offered in the zones by name": (
        {"network": {"zones": [A, B]}},
        [pool()],
        {"offerings": {"g5.8xlarge": frozenset({D}), "m7i.large": frozenset(ZONES)}},
        [
            'pools[0].instanceType: "g5.8xlarge" is not offered in the VPC\'s zones, us-west-2a and us-west-2b; '
            "add us-west-2d to network.zones"
        ],
    ),
    "type not offered in the subnets' zones": (
        {"network": existing_network()},
        [pool()],
        {"offerings": {"g5.8xlarge": frozenset({C, D}), "m7i.large": frozenset(ZONES)}},
        [
            'pools[0].instanceType: "g5.8xlarge" is not offered in the VPC\'s zones, us-west-2a and us-west-2b; '
            "add a subnet in us-west-2c or us-west-2d"
        ],
    ),
    "type offered nowhere": (
        {},
        [pool()],
        {"offerings": {"g5.8xlarge": frozenset(), "m7i.large": frozenset(ZONES)}},
        [
            'pools[0].instanceType: "g5.8xlarge" is offered in no zone of us-west-2 that EKS can use; '
            "choose another type or region"
        ],
    ),
    "zone outside of the VPC": (
        {"network": existing_network()},
        [pool(zone=D)],
        {},
        ['pools[0].zone: "us-west-2d" is not a zone of the VPC; choose us-west-2a or us-west-2b'],
    ),
    "type that the pool's zone never had": (
        {},
        [pool()],
        {
            "offerings": {"g5.8xlarge": frozenset({B}), "m7i.large": frozenset(ZONES)},
            **existing("1.35", (A, B), train=ExistingPool(A, 0, 0, 2)),
        },
        [
            'pools[0].instanceType: "g5.8xlarge" is not offered in us-west-2a, where the pool is; '
            "give the pool another name, or set its zone, to have it made anew"
        ],
    ),
    "system type not offered": (
        {"network": existing_network()},
        [],
        {"offerings": {"m7i.large": frozenset({D})}},
        ['target.system.instanceType: "m7i.large" is not offered in the VPC\'s zones, us-west-2a and us-west-2b; choose another'],
    ),
    # existing VPC
    "no such VPC and subnets": (
        {"network": existing_network()},
        [],
        {"vpc": None, "subnets": {}, "not_found": frozenset({VPC, subnet_id("a"), subnet_id("b")})},
        [
            f'network.vpcId: "{VPC}" does not exist in {WHERE}; name one that does',
            f'network.subnetIds[0]: "{subnet_id("a")}" does not exist in {WHERE}; name one that does',
            f'network.subnetIds[1]: "{subnet_id("b")}" does not exist in {WHERE}; name one that does',
        ],
    ),
    "VPC without host names": (
        {"network": existing_network()},
        [],
        {"vpc": vpc(dns_hostnames=False)},
        [f"network.vpcId: {VPC} has enableDnsHostnames off, without which nodes do not find the cluster; switch it on"],
    ),
    "VPC over the services": (
        {"network": existing_network()},
        [],
        {"vpc": vpc(cidrs=("10.0.0.0/16", "172.20.128.0/17"))},
        [
            f"network.vpcId: names {VPC}, whose 172.20.128.0/17 overlaps 172.20.0.0/16, the addresses of Kubernetes services; "
            "use another VPC"
        ],
    ),
    "subnet of another VPC": (
        {"network": existing_network()},
        [],
        {"subnets": subnets(subnet("a"), subnet("b", vpc_id="vpc-99999999"))},
        [f"network.subnetIds[1]: {subnet_id('b')} is in vpc-99999999, not in {VPC}; name a subnet of that VPC"],
    ),
    "public subnet": (
        {"network": existing_network()},
        [],
        {"subnets": subnets(subnet("a", is_public=True), subnet("b"))},
        [
            f"network.subnetIds[0]: {subnet_id('a')} is public, its routes lead to an internet gateway; "
            "name a private one, since nodes get no public addresses"
        ],
    ),
    "subnets of one zone": (
        {"network": existing_network()},
        [],
        {"subnets": subnets(subnet("a"), subnet("b", zone=A))},
        ["network.subnetIds: are all in us-west-2a; name subnets in at least two zones, which EKS needs"],
    ),
    "subnet without addresses for EKS": (
        {"network": existing_network(subnet_id("a"), subnet_id("b"), subnet_id("c"))},
        [],
        {"subnets": subnets(subnet("a"), subnet("b"), subnet("c", zone=B, free_addresses=5))},
        [f"network.subnetIds[2]: {subnet_id('c')} has 5 free addresses; EKS needs 6 in each subnet"],
    ),
    # addresses
    "existing subnets too small": (
        {"network": existing_network()},
        [pool(maxSize=20, zone=B)],
        {"subnets": subnets(subnet("a"), subnet("b", free_addresses=200))},
        [
            "network.subnetIds: leave 200 addresses in us-west-2b, but its nodes, at most 3 of system and 20 of train, "
            "need 299 (13 each); name larger subnets, or lower maxSize"
        ],
    ),
    "new CIDR too small": (
        {"network": {"cidr": "10.0.0.0/20"}},
        [pool(maxSize=20)],
        {},
        [
            "network.cidr: 10.0.0.0/20 gives us-west-2a 251 addresses, but its nodes, at most 3 of system and 20 of train, "
            "need 299 (13 each); write a larger CIDR, or lower maxSize"
        ],
    ),
    # existing file system
    "no such file system": (
        {"network": existing_network(), "storage": {"efs": {"fileSystemId": FILE_SYSTEM}}},
        [],
        {"not_found": frozenset({FILE_SYSTEM})},
        [f'storage.efs.fileSystemId: "{FILE_SYSTEM}" does not exist in {WHERE}; name one that does'],
    ),
    "file system without a mount target in a zone": (
        {"network": existing_network(), "storage": {"efs": {"fileSystemId": FILE_SYSTEM}}},
        [],
        {"file_system": FileSystem(FILE_SYSTEM, "available", {A: VPC})},
        [f"storage.efs.fileSystemId: {FILE_SYSTEM} has no mount target in us-west-2b, where nodes may run; create one there"],
    ),
    "file system of another VPC": (
        {"network": existing_network(), "storage": {"efs": {"fileSystemId": FILE_SYSTEM}}},
        [],
        {"file_system": FileSystem(FILE_SYSTEM, "available", {A: "vpc-99999999", B: "vpc-99999999"})},
        [f"storage.efs.fileSystemId: {FILE_SYSTEM} is mounted in vpc-99999999, not in {VPC}; use that VPC"],
    ),
    "file system that goes": (
        {"network": existing_network(), "storage": {"efs": {"fileSystemId": FILE_SYSTEM}}},
        [],
        {"file_system": FileSystem(FILE_SYSTEM, "deleting", {A: VPC, B: VPC})},
        [f"storage.efs.fileSystemId: {FILE_SYSTEM} is deleting; name one that is available"],
    ),
    # images
    "no such image": (
        {},
        [pool(amiId=IMAGE)],
        {"not_found": frozenset({IMAGE})},
        [f'pools[0].amiId: "{IMAGE}" is not to be found in {WHERE}; share it, or name another'],
    ),
    "image of another architecture": (
        {},
        [pool(amiId=IMAGE)],
        {"images": {IMAGE: "arm64"}},
        [f"pools[0].amiId: {IMAGE} is for arm64, but g5.8xlarge is x86_64; name one of that architecture"],
    ),
    # placement groups
    "no such placement group": (
        {},
        [pool(placementGroup="mine")],
        {"not_found": frozenset({"mine"})},
        [f'pools[0].placementGroup: "mine" does not exist in {WHERE}; create it, or write auto'],
    ),
    "placement group that spreads": (
        {},
        [pool(placementGroup="mine")],
        {"placement_groups": {"mine": "spread"}},
        ['pools[0].placementGroup: "mine" has the strategy spread; name a cluster group, or write auto'],
    ),
    "placement group with a reservation": (
        {},
        [pool(instance_type="p5.48xlarge", placementGroup="mine", capacity=ODCR)],
        {"placement_groups": {"mine": "cluster"}, **reserved()},
        [
            'pools[0].placementGroup: "mine" cannot hold the reserved instances; '
            "remove it, the reservation decides where the instances run"
        ],
    ),
    "reservation that was made in a placement group": (
        {},
        [pool(instance_type="p5.48xlarge", capacity=ODCR)],
        reserved(placement_group="theirs"),
        [f"pools[0].placementGroup: {RESERVATION} was made in a placement group; write placementGroup: theirs"],
    ),
    # reservations
    "no such reservation": (
        {},
        [pool(instance_type="p5.48xlarge", capacity=ODCR)],
        {"not_found": frozenset({RESERVATION})},
        [f'pools[0].capacity.reservationId: "{RESERVATION}" does not exist in {WHERE}, nor is it shared with it'],
    ),
    "capacity block as an on-demand reservation": (
        {},
        [pool(instance_type="p5.48xlarge", capacity=ODCR)],
        reserved(kind="capacity-block"),
        [f"pools[0].capacity.kind: {RESERVATION} is a capacity block; write capacity-block"],
    ),
    "on-demand reservation as a capacity block": (
        {},
        [pool(instance_type="p5.48xlarge", capacity=BLOCK)],
        reserved(),
        [f"pools[0].capacity.kind: {RESERVATION} is not a capacity block; write targeted-odcr"],
    ),
    "reservation too small": (
        {},
        [pool(instance_type="p5.48xlarge", maxSize=5, capacity=ODCR)],
        reserved(),
        [f"pools[0].maxSize: 5 is too many, {RESERVATION} has 4 instances; lower it"],
    ),
    "reservation too small for its pools": (
        {},
        [
            pool("a", instance_type="p5.48xlarge", maxSize=3, capacity=ODCR),
            pool("b", instance_type="p5.48xlarge", maxSize=2, capacity=ODCR),
        ],
        reserved(),
        [f"pools[1].maxSize: 2 is too many, {RESERVATION} has 4 instances for a and b, which may have 5 together; lower it"],
    ),
    "reservation in another zone than told": (
        {},
        [pool(instance_type="p5.48xlarge", zone=A, capacity=ODCR)],
        reserved(),
        [f'pools[0].zone: "us-west-2a" is not where {RESERVATION} is; write us-west-2b, or remove it'],
    ),
    "reservation in another zone than the pool": (
        {},
        [pool(instance_type="p5.48xlarge", capacity=ODCR)],
        {**reserved(), **existing("1.35", (A, B), train=ExistingPool(A, 0, 0, 2))},
        [
            f"pools[0].capacity.reservationId: {RESERVATION} is in us-west-2b, but the pool is in us-west-2a; "
            "give the pool another name, or set zone: us-west-2b, to have it made anew"
        ],
    ),
    "reservation of another type": (
        {},
        [pool(instance_type="p4d.24xlarge", capacity=ODCR)],
        reserved(),
        [
            f"pools[0].capacity.reservationId: {RESERVATION} reserves p5.48xlarge, but the pool is of p4d.24xlarge; "
            "make them the same"
        ],
    ),
    "reservation that is over": (
        {},
        [pool(instance_type="p5.48xlarge", capacity=BLOCK)],
        reserved(kind="capacity-block", state="expired"),
        [f"pools[0].capacity.reservationId: {RESERVATION} is expired; name one that is active"],
    ),
    "reservation that has not begun": (
        {},
        [pool(instance_type="p5.48xlarge", desiredSize=2, capacity=BLOCK)],
        reserved(kind="capacity-block", state="scheduled"),
        [f"pools[0].desiredSize: 2 nodes cannot start while {RESERVATION} is scheduled; write 0 until it is active"],
    ),
    "reservation that others use": (
        {},
        [pool(instance_type="p5.48xlarge", minSize=2, capacity=ODCR)],
        reserved(available=1),
        [f"pools[0].minSize: 2 nodes are more than the 1 that are free in {RESERVATION}; write at most 1"],
    ),
    "not sold as spot": (
        {},
        [pool(instance_type="p5.48xlarge", capacity={"kind": "spot"})],
        {"instance_types": {"m7i.large": instance_type("m7i.large"), "p5.48xlarge": NO_SPOT}},
        ["pools[0].capacity.kind: p5.48xlarge is not sold as spot; write capacity-block or on-demand"],
    ),
    "not sold as a capacity block": (
        {},
        [pool(capacity=BLOCK)],
        reserved(kind="capacity-block", instance_type="g5.8xlarge"),
        ["pools[0].capacity.kind: g5.8xlarge is not sold as capacity-block; write on-demand or spot"],
    ),
    # versions
    "version that EKS does not offer": (
        {"target": {"kubernetesVersion": "1.36"}},
        [],
        {"kubernetes_versions": ("1.32", "1.33", "1.34", "1.35"), "addon_versions": {}},
        ['target.kubernetesVersion: "1.36" is not offered by EKS in us-west-2; choose 1.33, 1.34 or 1.35'],
    ),
    "version that skips a minor": (
        {"target": {"kubernetesVersion": "1.35"}},
        [],
        existing("1.33"),
        [
            'target.kubernetesVersion: "1.35" skips a minor, since the cluster has 1.33; '
            'write "1.34", run `pulumi up`, and go on from there'
        ],
    ),
    "version that goes back": (
        {"target": {"kubernetesVersion": "1.35"}},
        [],
        existing("1.36"),
        ['target.kubernetesVersion: "1.35" is older than the cluster, which EKS does not take back; write "1.36"'],
    ),
    "add-on version that EKS does not offer": (
        {"target": {"addonVersions": {"coredns": "v1.0.0-eksbuild.1"}}},
        [],
        {},
        [
            f'target.addonVersions.coredns: "v1.0.0-eksbuild.1" is not offered for Kubernetes 1.35; '
            f"the newest is {addon_versions('1.35')['coredns']}"
        ],
    ),
    "tested add-on version that is gone": (
        {},
        [],
        {"addon_versions": addons(coredns="v1.99.10-eksbuild.2")},
        [
            f"target.addonVersions.coredns: is missing, and the tested {addon_versions('1.35')['coredns']} "
            "is no longer offered for Kubernetes 1.35; write the newest, v1.99.10-eksbuild.2"
        ],
    ),
    "add-on that EKS lacks": (
        {},
        [],
        {"addon_versions": {name: one for name, one in addons().items() if name != "metrics-server"}},
        [
            "target.addonVersions.metrics-server: EKS offers no metrics-server for Kubernetes 1.35 in us-west-2; "
            "choose another target.kubernetesVersion"
        ],
    ),
    # quotas
    "quota of a new account": (
        {},
        [pool(instance_type="p5.48xlarge", maxSize=4)],
        {"quotas": {"L-417A185B": 0.0, "L-1216C47A": 64.0}},
        [
            'pools[0].maxSize: 4 p5.48xlarge need 768 vCPUs, but the quota "Running On-Demand P instances" is 0; '
            "ask for more (`aws service-quotas request-service-quota-increase --service-code ec2 --quota-code L-417A185B "
            "--desired-value 768 --region us-west-2`) or lower maxSize"
        ],
    ),
    "quota of spot": (
        {},
        [pool(instance_type="g5.xlarge", maxSize=4, capacity={"kind": "spot"})],
        {"quotas": {"L-3819A6DF": 8.0, "L-DB2E81BA": 1000.0, "L-1216C47A": 64.0}},
        [
            'pools[0].maxSize: 4 g5.xlarge need 16 vCPUs, but the quota "All G and VT Spot Instance Requests" is 8; '
            "ask for more (`aws service-quotas request-service-quota-increase --service-code ec2 --quota-code L-3819A6DF "
            "--desired-value 16 --region us-west-2`) or lower maxSize"
        ],
    ),
    "quota of several pools": (
        {},
        [pool("a", instance_type="g5.xlarge", maxSize=4), pool("b", instance_type="g6.xlarge", maxSize=1)],
        {"quotas": {"L-DB2E81BA": 19.0, "L-1216C47A": 64.0}},
        [
            'pools: 4 g5.xlarge and 1 g6.xlarge need 20 vCPUs, but the quota "Running On-Demand G and VT instances" is 19; '
            "ask for more (`aws service-quotas request-service-quota-increase --service-code ec2 --quota-code L-DB2E81BA "
            "--desired-value 20 --region us-west-2`) or lower maxSize"
        ],
    ),
    "quota of the system": (
        {},
        [],
        {"quotas": {"L-1216C47A": 5.0}},
        [
            "target.system.maxSize: 3 m7i.large need 6 vCPUs, "
            'but the quota "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances" is 5; '
            "ask for more (`aws service-quotas request-service-quota-increase --service-code ec2 --quota-code L-1216C47A "
            "--desired-value 6 --region us-west-2`) or lower maxSize"
        ],
    ),
    # what a cluster cannot leave
    "other addresses": (
        {"network": {"cidr": "10.1.0.0/16"}},
        [],
        live(),
        [
            'network.cidr: is "10.1.0.0/16", but the cluster\'s VPC has 10.0.0.0/16, which cannot change; '
            'write "10.0.0.0/16", or make another stack'
        ],
    ),
    "its own VPC as an existing one": (
        {"network": existing_network()},
        [],
        live(),
        [
            f"network.vpcId: names a VPC, but the cluster is in {VPC}, which this stack made and manages; "
            "remove vpcId and subnetIds, or make another stack"
        ],
    ),
    "another existing VPC": (
        {"network": existing_network()},
        [],
        live("vpc-0fedcba9876543210", own=False),
        [
            "network.vpcId: is not vpc-0fedcba9876543210, which the cluster is in and cannot leave; "
            "name that one, or make another stack"
        ],
    ),
    "a new VPC for a cluster in an existing one": (
        {},
        [],
        live(own=False),
        [f"network.vpcId: is not {VPC}, which the cluster is in and cannot leave; name that one, or make another stack"],
    ),
    "a zone of the control plane left out": (
        {"network": {"zones": [A, C]}},
        [],
        live(),
        [
            f"network.zones: leaves out {B}, but the control plane is in {A} and {B}, which it cannot leave; "
            "add what is missing, or make another stack"
        ],
    ),
    "fewer zones than the control plane has": (
        {"network": {"zones": 2}},
        [],
        live(zones=(A, B, C)),
        [
            f"network.zones: asks for 2, but the control plane is in {A}, {B} and {C}, which it cannot leave; "
            "ask for 3, or make another stack"
        ],
    ),
    "no subnet in a zone of the control plane": (
        {"network": existing_network()},
        [],
        live(own=False, zones=(A, C)),
        [
            f"network.subnetIds: name no subnet in {C}, but the control plane is in {A} and {C}, which it cannot leave; "
            "name one, or make another stack"
        ],
    ),
    # caller
    "root": (
        {},
        [],
        {"caller": Caller(ACCOUNT, f"arn:aws:iam::{ACCOUNT}:root", None)},
        [f"caller: arn:aws:iam::{ACCOUNT}:root is the account's root, to which EKS gives no access; use an IAM user or role"],
    ),
    "role that cannot be looked up": (
        {},
        [],
        {"caller": Caller(ACCOUNT, f"arn:aws:sts::{ACCOUNT}:assumed-role/Ops/ada", None)},
        [
            f"caller: arn:aws:sts::{ACCOUNT}:assumed-role/Ops/ada is a session of a role that cannot be looked up; "
            "allow it iam:GetRole, or name its role in target.admins"
        ],
    ),
    # platform
    "platform behind an endpoint of a network that is yet to be made": (
        {"platform": {"install": True}},
        [],
        {},
        [
            "platform.install: is true, but without target.endpointAccess.publicCidrs the Kubernetes API is reached from inside "
            "the VPC only, which is yet to be made; write false, and true when `pulumi up` runs inside"
        ],
    ),
    "platform that would go with the public endpoint": (
        {"platform": {"install": None}},
        [],
        {"existing": Existing("1.35", has_public_endpoint=True)},
        [
            "platform.install: is missing: without the public endpoint its default is false, which removes the platform and all "
            "jobs; write true and run `pulumi up` from inside the network, or write false"
        ],
    ),
    "manifests of one upstream": (
        {},
        [],
        {"manifests": Manifests({}, {"kubeflow/mpi-operator/v0/a.yaml": "a cannot be read: No such file or directory"})},
        [
            "platform.manifestMirror: kubeflow/mpi-operator: a cannot be read: No such file or directory; "
            "name a folder or address that has it, here or in GPUMPI_MANIFEST_MIRROR"
        ],
    ),
    "manifests of several": (
        {},
        [],
        {"manifests": Manifests({}, {"a/b/v1/1": "no way to 1", "a/b/v1/2": "no way to 2", "c/d/v1/3": "no way to 3"})},
        [
            "platform.manifestMirror: a/b and c/d: no way to 1; "
            "name a folder or address that has it, here or in GPUMPI_MANIFEST_MIRROR"
        ],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_mistake_gets_one_sentence(case: str) -> None:
    sections, pools, changed, expected = CASES[case]
    stack = settings(*pools, **sections)
    assert [str(problem) for problem in validation.check(stack, facts(stack, **changed))] == expected


FINE: dict[str, tuple[dict[str, Any], list[dict[str, Any]], dict[str, Any]]] = {
    "the least stack": ({}, [], {}),
    "one GPU pool": ({}, [pool()], {}),
    "platform from inside an existing network": ({"network": existing_network(), "platform": {"install": True}}, [], {}),
    "platform from inside a network that is there by now": (
        {"platform": {"install": True}},
        [],
        {"existing": Existing("1.35")},
    ),
    "a public endpoint that goes, with a word on the platform": (
        {"platform": {"install": False}},
        [],
        {"existing": Existing("1.35", has_public_endpoint=True)},
    ),
    "a private endpoint without a word on the platform": ({"platform": {"install": None}}, [], {}),
    "every kind of GPU type": ({}, [pool("a", "p5.48xlarge"), pool("b", "g5g.xlarge"), pool("c", "p6-b300.48xlarge")], {}),
    "EFA on request": ({}, [pool(efa=True)], {}),
    "no EFA on request": ({}, [pool(efa=False)], {}),
    "reservation": ({}, [pool(instance_type="p5.48xlarge", maxSize=4, desiredSize=4, capacity=ODCR)], reserved()),
    "reservation in a placement group": (
        {},
        [pool(instance_type="p5.48xlarge", placementGroup="theirs", capacity=ODCR)],
        {"placement_groups": {"theirs": "cluster"}, **reserved(placement_group="theirs")},
    ),
    "capacity block that has not begun": (
        {},
        [pool(instance_type="p5.48xlarge", capacity=BLOCK)],
        reserved(kind="capacity-block", state="scheduled"),
    ),
    "reserved capacity needs no quota": (
        {},
        [pool(instance_type="p5.48xlarge", capacity=BLOCK)],
        {"quotas": {"L-417A185B": 0.0}, **reserved(kind="capacity-block")},
    ),
    "reservation used by the pool itself": (
        {},
        [pool(instance_type="p5.48xlarge", maxSize=4, desiredSize=4, capacity=ODCR)],
        {**reserved(available=0), **existing("1.35", (A, B, C), train=ExistingPool(B, 0, 4, 4))},
    ),
    "quota just enough": ({}, [pool(instance_type="p5.48xlarge", maxSize=2)], {"quotas": {"L-417A185B": 384.0}}),
    "quota that could not be read": ({}, [pool(instance_type="p5.48xlarge", maxSize=2)], {"quotas": {}}),
    "versions that could not be read": ({}, [], {"kubernetes_versions": (), "addon_versions": {}}),
    "next minor": ({"target": {"kubernetesVersion": "1.35"}}, [], existing("1.34")),
    "version of the cluster that EKS no longer offers": (
        {"target": {"kubernetesVersion": "1.33"}},
        [],
        {"kubernetes_versions": ("1.34", "1.35"), "addon_versions": {}, **existing("1.33")},
    ),
    "role that cannot be looked up, with an admin": (
        {"target": {"admins": [ADMIN]}},
        [],
        {"caller": Caller(ACCOUNT, f"arn:aws:sts::{ACCOUNT}:assumed-role/Ops/ada", None)},
    ),
    "existing VPC and file system": (
        {"network": existing_network(), "storage": {"efs": {"fileSystemId": FILE_SYSTEM}}},
        [pool()],
        {"file_system": FileSystem(FILE_SYSTEM, "available", {A: VPC, B: VPC, C: VPC})},
    ),
    "addresses that the pool has already": (
        {"network": existing_network()},
        [pool(maxSize=20)],
        {
            "subnets": subnets(subnet("a", free_addresses=50), subnet("b")),
            **existing("1.35", (), train=ExistingPool(A, 0, 20, 20)),
        },
    ),
    "pool in a zone that offers its type no more, told so": (
        {},
        [pool(zone=A)],
        {"offerings": {"g5.8xlarge": frozenset({A}), "m7i.large": frozenset(ZONES)}},
    ),
    "pool of a type that AWS offers no more where it is": (
        {},
        [pool()],
        {
            "offerings": {"g5.8xlarge": frozenset({B}), "m7i.large": frozenset(ZONES)},
            **existing("1.35", (A, B), train=ExistingPool(A, 0, 0, 2, instance_type="g5.8xlarge")),
        },
    ),
    "cluster that stays where it is, with another zone": ({"network": {"zones": [A, B, C]}}, [], live()),
    "own image and placement group": (
        {},
        [pool(amiId=IMAGE, placementGroup="mine")],
        {"images": {IMAGE: "x86_64"}, "placement_groups": {"mine": "cluster"}},
    ),
}


@pytest.mark.parametrize("case", FINE)
def test_what_is_possible_gets_no_sentence(case: str) -> None:
    sections, pools, changed = FINE[case]
    stack = settings(*pools, **sections)
    assert validation.check(stack, facts(stack, **changed)) == []


def test_all_problems_are_told_at_once_and_each_once() -> None:
    stack = settings(
        pool("A", instance_type="g5.xlarg", minSize=3),
        pool("b", instance_type="p5.48xlarge", maxSize=50, efa=True),
        pool("b", instance_type="m7i.large"),
        network={"cidr": "10.0.0.0/20", "natGateways": "none"},
        target={"kubernetesVersion": "1.36"},
    )
    found = validation.check(stack, facts(stack, quotas={"L-417A185B": 0.0}, addon_versions={}, **existing("1.34")))
    assert sorted(problem.path for problem in found) == [
        "network.cidr",
        "network.natGateways",
        "pools[0].instanceType",
        "pools[0].minSize",
        "pools[0].name",
        "pools[1].maxSize",
        "pools[2].instanceType",
        "pools[2].name",
        "target.kubernetesVersion",
    ]


def test_what_aws_says_of_a_value_of_the_wrong_form_is_left_out() -> None:
    stack = settings(network={"vpcId": "main", "subnetIds": [subnet_id("a"), subnet_id("b")]})
    found = validation.check(stack, facts(stack, vpc=None, not_found=frozenset({"main"})))
    assert [problem.path for problem in found if problem.path == "network.vpcId"] == ["network.vpcId"]


def no_zone(stack: Settings) -> Facts:
    return facts(stack, zones=(), offerings={}, instance_types={})


@pytest.mark.parametrize("world", [facts, no_zone])
def test_rules_bear_stand_ins(world: Callable[[Settings], Facts]) -> None:
    """What a broken file leaves behind: empty names and CIDRs that are none."""
    stack = settings(pool("", "", 0), network={"cidr": "nonsense"})
    assert validation.check(stack, world(stack))
