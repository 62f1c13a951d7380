"""Mistakes that facts from AWS reveal before AWS rejects the launch of a node or the creation of an endpoint."""

from dataclasses import replace
from typing import Any

from infra.facts.model import EbsKey, EndpointService, Existing, ExistingPool, NodeTemplate
from infra.plan.aws_services import FOR_EC2, FOR_EKS
from infra.validation.encryption import OPERATIONS
from tests.pure.mistakes.case import BLOCK, A, B, C, D, FactsCase, make_reservation_facts
from tests.pure.world import ACCOUNT, REGION, RESERVATION, ZONES, instance_type, pool

KEY = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/1234abcd"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling"
ENCRYPTS = f"EBS encrypts volumes in {REGION} by default with {KEY}"
RESET = f"run `aws ec2 reset-ebs-default-kms-key-id --region {REGION}`."
HOW = "https://docs.aws.amazon.com/autoscaling/ec2/userguide/key-policy-requirements-EBS-encryption.html"

CLOSED = {"network": {"natGateways": "none", "interfaceEndpoints": True, "zones": [A, B]}}
NAT = "Replace interfaceEndpoints with natGateways: one"


def make_ebs_key_facts(*statements: dict[str, Any], state: str = "Enabled", grants: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"ebs_key": EbsKey(KEY, state, ROLE, {"Statement": list(statements)}, frozenset(grants))}


def make_allow_statement(action: str, **more: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Principal": {"AWS": ROLE}, "Action": action, "Resource": "*", **more}


def make_service_facts(**zones: tuple[str, ...] | None) -> dict[str, Any]:
    """Return facts in which all services offer endpoints in all zones. `zones` replaces a service's zones, or omits the
    service (None).
    """
    changed = {name.replace("_", "."): value for name, value in zones.items()}
    by_service = {service: changed.get(service, ZONES) for service in FOR_EKS}
    return {
        "endpoint_services": {
            service: EndpointService(f"com.amazonaws.{REGION}.{service}", frozenset(where))
            for service, where in by_service.items()
            if where is not None
        }
    }


def make_capacity_block_facts(desired: int, version: str = "1.35", **changed: Any) -> dict[str, Any]:
    """Return facts with a Capacity Block pool whose nodes were launched from an outdated template."""
    template = NodeTemplate("p5.48xlarge", None, RESERVATION, 500, (), "")
    old = ExistingPool(B, 0, desired, 2, zones=(B,), instance_type="p5.48xlarge", node_group="g-1", version=version)
    train = replace(old, **{"block_template": template, **changed})
    return {
        "existing": Existing("1.35", (A, B), {"train": train}),
        "addon_versions": {},
        **make_reservation_facts(kind="capacity-block"),
    }


BLIND = replace(
    instance_type("p6-b300.48xlarge"),
    network_cards=tuple(replace(card, efa=None) for card in instance_type("p6-b300.48xlarge").network_cards),
)
SCALE = (
    f"EKS can upgrade such a pool only at size 0. First run `aws eks update-nodegroup-config --region {REGION} "
    "--cluster-name gpumpi-test --nodegroup-name g-1 --scaling-config minSize=0,desiredSize=0`."
)
IN_BLOCK = [pool(instance_type="p5.48xlarge", capacity=BLOCK)]

CASES: dict[str, FactsCase] = {
    # EFA
    "network cards that EC2 does not describe": (
        {},
        [pool(instance_type="p6-b300.48xlarge")],
        {"instance_types": {"p6-b300.48xlarge": BLIND, "m7i.large": instance_type("m7i.large")}},
        [
            "pools[0].efa: EC2 does not report which of the 17 network cards of p6-b300.48xlarge support EFA (InterfaceTypes is "
            "missing). Install the boto3 version in requirements.lock, choose another type, or set efa: false."
        ],
    ),
    "network cards that EC2 does not describe, without EFA": (
        {},
        [pool(instance_type="p6-b300.48xlarge", efa=False)],
        {"instance_types": {"p6-b300.48xlarge": BLIND, "m7i.large": instance_type("m7i.large")}},
        [],
    ),
    # EBS default key
    "EBS default key that only the account may use": (
        {},
        [],
        make_ebs_key_facts(),
        [
            f"account: {ENCRYPTS}. The key does not allow AWSServiceRoleForAutoScaling to call "
            f"{', '.join(OPERATIONS[:-1])} and ReEncryptTo, so no node could start. Extend the key policy as in {HOW}, or {RESET}"
        ],
    ),
    "deleted EBS default key": (
        {},
        [],
        make_ebs_key_facts(make_allow_statement("kms:*"), state="PendingDeletion"),
        [f"account: {ENCRYPTS}, but the state of the key is PendingDeletion. Enable the key, or {RESET}"],
    ),
    "EBS default key with a condition that depends on the request": (
        {},
        [],
        make_ebs_key_facts(make_allow_statement("kms:*", Condition={"StringEquals": {"aws:PrincipalOrgID": "o-1"}})),
        [
            f"warning: account: {ENCRYPTS}. Whether its policy allows AWSServiceRoleForAutoScaling to call "
            f"{', '.join(OPERATIONS[:-1])} and ReEncryptTo depends on conditions. If nodes fail to launch with "
            f"Client.InternalError, see {HOW}."
        ],
    ),
    "EBS default key that denies everyone else in the account": (
        {},
        [],
        make_ebs_key_facts(
            make_allow_statement("kms:*"), {"Effect": "Deny", "NotPrincipal": {"AWS": f"{ACCOUNT}"}, "Action": "kms:Decrypt"}
        ),
        [
            f"warning: account: {ENCRYPTS}. Whether its policy allows AWSServiceRoleForAutoScaling to call Decrypt depends on "
            f"conditions. If nodes fail to launch with Client.InternalError, see {HOW}."
        ],
    ),
    "EBS default key that a grant allows": ({}, [], make_ebs_key_facts(grants=OPERATIONS), []),
    # endpoints
    "service without endpoints in the Region": (
        CLOSED,
        [],
        make_service_facts(eks=None, logs=None),
        [f"network.interfaceEndpoints: {REGION} has no interface endpoint for eks. {NAT}, or use another Region."],
    ),
    "Session Manager service without endpoints in the Region": (
        CLOSED,
        [],
        make_service_facts(ec2messages=None),
        [
            f"warning: network.interfaceEndpoints: {REGION} has no interface endpoint for ec2messages. Nodes can join and "
            "run jobs, but Session Manager or container logs do not work."
        ],
    ),
    "CloudWatch without an endpoint, although jobs send their logs there": (
        {**CLOSED, "platform": {"jobLogs": "cloudwatch"}},
        [],
        make_service_facts(logs=None),
        [f"network.interfaceEndpoints: {REGION} has no interface endpoint for logs. {NAT}, or use another Region."],
    ),
    "service without endpoints in a zone": (
        CLOSED,
        [],
        make_service_facts(ecr_api=(A, C, D), sts=(A, C)),
        [f"network.zones[1]: {B} has no interface endpoint for ecr.api and sts. Choose from {A} and {C}."],
    ),
    "service without endpoints in a zone that the user did not choose": (
        {"network": {**CLOSED["network"], "zones": 2}},
        [],
        make_service_facts(ecr_api=(A, C, D)),
        [f"network.zones: {B} has no interface endpoint for ecr.api. Choose from {A}, {C} and {D}."],
    ),
    "services that have no zone in common": (
        CLOSED,
        [],
        make_service_facts(ec2=(A, B), eks=(C, D)),
        [
            f"network.zones[0]: {A} has no interface endpoint for eks. {NAT}.",
            f"network.zones[1]: {B} has no interface endpoint for eks. {NAT}.",
        ],
    ),
    "services that the caller may not list, with predictable names": (CLOSED, [], {"endpoint_services": None}, []),
    "services that the caller may not list, with unpredictable names": (
        CLOSED,
        [],
        {"partition": "aws-cn"},
        [
            "network.interfaceEndpoints: the names of endpoint services in aws-cn could not be listed and cannot be derived. "
            f"Allow arn:aws:iam::{ACCOUNT}:user/ada to call ec2:DescribeVpcEndpointServices."
        ],
    ),
    "services that the stack does not use": ({}, [], {"endpoint_services": {}, "partition": "aws-cn"}, []),
    # Capacity Blocks
    "template change of a pool with nodes in a Capacity Block": (
        {},
        IN_BLOCK,
        make_capacity_block_facts(1),
        [
            "pools[0]: train has 1 node in a Capacity Block, and `pulumi up` would change rootVolumeGib, efa and user data in "
            f"the launch template. {SCALE}"
        ],
    ),
    "upgrade of a pool with nodes in a Capacity Block": (
        {"target": {"kubernetesVersion": "1.36"}},
        [pool(instance_type="p5.48xlarge", capacity=BLOCK)],
        make_capacity_block_facts(2),
        [
            "pools[0]: train has 2 nodes in a Capacity Block, and `pulumi up` would change rootVolumeGib, efa and user data in "
            f"the launch template. {SCALE}",
            f'target.kubernetesVersion: "1.36" would upgrade all pools, but train has 2 nodes in a Capacity Block. {SCALE}',
        ],
    ),
    "template change of an empty pool in a Capacity Block": ({}, IN_BLOCK, make_capacity_block_facts(0), []),
    "template change of a pool whose creation failed": ({}, IN_BLOCK, make_capacity_block_facts(2, failed=True), []),
    "template change of a pool without a Capacity Block": (
        {},
        [pool(instance_type="p5.48xlarge")],
        make_capacity_block_facts(2, block_template=None),
        [],
    ),
}

assert set(FOR_EC2) <= set(FOR_EKS)
