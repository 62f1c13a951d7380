"""Checks of the account's quotas other than vCPUs, and of its service-linked roles."""

from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import ceil
from typing import Final

from infra.checks.model import Answer, build_negative_answer, build_unknown_answer
from infra.config.messages import join_with_and
from infra.facts import account_limits
from infra.facts.account_limits import (
    ADDRESSES,
    GATEWAYS,
    INTERFACES,
    LIMITS,
    NAT_GATEWAYS,
    NODES,
    ROLES,
    SERVICE_ROLES,
    STORAGE,
    AccountLimits,
    Limit,
)
from infra.facts.clients import Clients, query, try_query
from infra.facts.model import Facts, FactsError
from infra.facts.simulation import simulate_actions
from infra.inventory.network import NAT_GATEWAY, NETWORK_ADDRESS, SUBNET
from infra.inventory.nodes import NODE_GROUP, Nodes, read_launched_nodes
from infra.inventory.resources import Inventory, Resource, list_resources
from infra.inventory.table import TABLE
from infra.settings.stack import Settings

SERVICE_LINKED: Final = "service-linked roles"
READ: Final = (ADDRESSES, NAT_GATEWAYS)
"""Quotas for which AWS reports the stack's own resources."""


def check_limits(settings: Settings, facts: Facts) -> Iterator[Answer]:
    """Compare the new resources that `up` creates with the unused part of the account's quotas."""
    inventory = list_resources(settings, facts)
    roles = list_service_roles(inventory)
    account, reason = try_query(facts.region, lambda: account_limits.read_account_limits(facts.region, settings.stack, roles))
    if account is None:
        yield from (build_unknown_answer(name, reason) for name in (*(limit.name for limit in LIMITS), SERVICE_LINKED))
        return
    for limit, need in compute_quota_needs(inventory, facts, account.own_addresses).items():
        yield check_limit(limit, need, account, facts.region)
    if inventory.list_by_type(NAT_GATEWAY):
        yield check_nat_gateway_limit(count_nat_gateways(inventory), account, facts.region)
    yield _check_service_linked_roles(facts, roles, account)


@dataclass(frozen=True)
class Need:
    """How many units of a limited resource the stack still needs: for the next `up`, and with pools at `maxSize`."""

    now: int
    maximum: int
    possible: int = 0
    """Maximum number of further units that an existing stack may need. It may already have some or all of them."""

    def add(self, need: "Need") -> "Need":
        return Need(self.now + need.now, self.maximum + need.maximum, self.possible + need.possible)


def compute_quota_needs(inventory: Inventory, facts: Facts, own_addresses: int | None = 0) -> dict[Limit, Need]:
    """Return how many of each limited resource the stack still needs; for nodes per node group, the largest `maxSize`.

    If `own_addresses` is None, the result of the address check is unknown. The other numbers then assume that the stack
    already has all of its addresses.
    """
    addresses, gateways = len(inventory.list_by_type(NETWORK_ADDRESS)), len(inventory.list_by_type(NAT_GATEWAY))
    own = addresses if own_addresses is None else own_addresses
    needs = dict.fromkeys((INTERFACES, STORAGE, ROLES), Need(0, 0))
    for resource in inventory.resources:
        for limit, need in _list_resource_needs(resource, inventory, facts, has_gateway=own > 0):
            needs[limit] = needs.get(limit, Need(0, 0)).add(need)
    own_gateways = max(0, own - (addresses - gateways))  # each NAT gateway has an address
    new_gateways = max(0, gateways - own_gateways)
    needs[INTERFACES] = needs[INTERFACES].add(Need(new_gateways, new_gateways))
    if addresses:
        needs[ADDRESSES] = Need(max(0, addresses - own), max(0, addresses - own))
    if groups := inventory.list_by_type(NODE_GROUP):
        largest = max(read_launched_nodes(group, inventory).maximum for group in groups)
        needs[NODES] = Need(largest, largest)
    return {limit: needs[limit] for limit in LIMITS if limit in needs}


def _list_resource_needs(
    resource: Resource, inventory: Inventory, facts: Facts, *, has_gateway: bool
) -> Iterator[tuple[Limit, Need]]:
    """Yield what a resource adds to the account's usage, except NAT gateways and addresses."""
    entry = TABLE[resource.type]
    if entry.launches_nodes:
        nodes = read_launched_nodes(resource, inventory)
        existing = count_existing_nodes(nodes, facts)
        now, maximum = max(0, nodes.desired - existing), max(0, nodes.maximum - existing)
        yield INTERFACES, Need(now * nodes.interfaces, maximum * nodes.interfaces)
        yield STORAGE, Need(now * nodes.volume_gib, maximum * nodes.volume_gib)
    for limit, count in entry.units.items():
        if limit in READ:
            continue
        exists = entry.exists(resource, facts) and (limit is not GATEWAYS or has_gateway)
        if not exists:
            number = count(resource)
            yield limit, Need(0, 0, number) if exists is None else Need(number, number)


def count_existing_nodes(nodes: Nodes, facts: Facts) -> int:
    """Return how many of the nodes already exist in AWS."""
    if not nodes.pool:
        return 1 if facts.existing.pools else 0
    pool = facts.existing.pools.get(nodes.pool)
    return pool.desired_size if pool and not pool.failed else 0


def count_nat_gateways(inventory: Inventory) -> Mapping[str, int]:
    """Return the number of the stack's NAT gateways in each zone."""
    subnets = {subnet.id: subnet.inputs["availabilityZone"] for subnet in inventory.list_by_type(SUBNET)}
    return Counter(subnets[gateway.inputs["subnetId"]] for gateway in inventory.list_by_type(NAT_GATEWAY))


def list_service_roles(inventory: Inventory) -> frozenset[str]:
    """Return the services that need a service-linked role."""
    return frozenset(role for resource in inventory.resources for role in TABLE[resource.type].service_roles(resource, inventory))


def check_limit(limit: Limit, need: Need, account: AccountLimits, region: str) -> Answer:
    """Compare what the stack needs with one quota. If the quota covers the current size but not `maxSize`, only warn.

    The checks of vCPU quotas do the same.
    """
    used = account.limits[limit]
    if used.allowed is None or used.used is None:
        return build_unknown_answer(limit.name, used.reason)
    if not need.maximum + need.possible or used.used + need.maximum + need.possible <= used.allowed:
        return Answer(limit.name, "yes")
    request = _format_quota_request(limit, ceil((used.used + need.maximum + need.possible) / limit.scale), region)
    if limit is NODES:
        largest = f"a pool has up to {need.maximum} nodes, but the quota is {used.allowed:g}"
        return build_negative_answer(limit.name, f"{largest}. Request an increase (`{request}`) or lower maxSize.")
    unit = f" {limit.unit}" if limit.unit else ""
    have = f"the account uses {used.used} of {used.allowed:g}{unit}"
    if used.used + need.now > used.allowed and need.now:
        return build_negative_answer(
            limit.name, f"the stack needs {need.maximum}{unit} more, but {have}. Request an increase (`{request}`)."
        )
    if used.used + need.maximum > used.allowed and need.maximum:
        more = f"with every pool at maxSize, the stack needs {need.maximum}{unit} more"
        return Answer(limit.name, "yes", warnings=(f"{more}, but {have}. Request an increase (`{request}`) or lower maxSize.",))
    doubt = f"the stack needs up to {need.possible}{unit} more, depending on how many it already has"
    return build_unknown_answer(limit.name, f"{doubt}, and {have}. If that exceeds the quota, request an increase (`{request}`).")


def check_nat_gateway_limit(zones: Mapping[str, int], account: AccountLimits, region: str) -> Answer:
    """Check that each zone has room for the stack's NAT gateways."""
    allowed = account.limits[NAT_GATEWAYS].allowed
    if allowed is None or account.limits[NAT_GATEWAYS].used is None:
        return build_unknown_answer(NAT_GATEWAYS.name, account.limits[NAT_GATEWAYS].reason)
    used = {zone: account.nat_gateways.get(zone, 0) for zone in zones}
    full = {zone: number for zone, number in used.items() if number + zones[zone] > allowed}
    if not full:
        return Answer(NAT_GATEWAYS.name, "yes")
    request = _format_quota_request(NAT_GATEWAYS, max(number + zones[zone] for zone, number in full.items()), region)
    have = join_with_and(f"{zone} already has {number}" for zone, number in full.items())
    return build_negative_answer(NAT_GATEWAYS.name, f"{have}, and the quota is {allowed:g}. Request an increase (`{request}`).")


def _format_quota_request(limit: Limit, value: int, region: str) -> str:
    return (
        f"aws service-quotas request-service-quota-increase --service-code {limit.service} --quota-code {limit.code} "
        f"--desired-value {value} --region {'us-east-1' if limit is ROLES else region}"
    )


def _check_service_linked_roles(facts: Facts, roles: frozenset[str], account: AccountLimits) -> Answer:
    """Check the service-linked roles. During `up`, AWS creates missing ones if the caller may create them."""
    if account.roles_unknown:
        return build_unknown_answer(SERVICE_LINKED, account.roles_unknown)
    missing = sorted(account.missing_roles)
    forbidden, reason = try_query(facts.region, lambda: _find_forbidden_roles(facts, roles))
    if forbidden is None:
        names = f"the account lacks {join_with_and(SERVICE_ROLES[service] for service in missing)}, and " if missing else ""
        return build_unknown_answer(
            SERVICE_LINKED, f"{names}your permission to create service-linked roles could not be checked: {reason}"
        )
    if refused := [service for service in missing if service in forbidden]:
        create = "; ".join(f"aws iam create-service-linked-role --aws-service-name {service}" for service in refused)
        names = join_with_and(SERVICE_ROLES[service] for service in refused)
        fix = f"Ask an administrator to run `{create}`."
        return build_negative_answer(SERVICE_LINKED, f"the account lacks {names}, which you may not create. {fix}")
    if forbidden:
        existing = f"the service-linked roles of {join_with_and(sorted(forbidden))} exist"
        return build_unknown_answer(
            SERVICE_LINKED, f"{existing}, but you may not call iam:CreateServiceLinkedRole, which AWS may still require"
        )
    created = join_with_and(SERVICE_ROLES[service] for service in missing)
    return Answer(SERVICE_LINKED, "yes", (f"AWS creates {created}",) if missing else ())


def _find_forbidden_roles(facts: Facts, names: frozenset[str]) -> frozenset[str]:
    """Return the services whose service-linked role the caller may not create.

    Raises Denied or FactsError if the IAM policy simulation fails.
    """
    if facts.caller.is_root:
        return frozenset()
    principal = facts.caller.principal_arn
    if principal is None:
        raise FactsError(f"the user or role behind {facts.caller.arn} could not be found")
    clients = query(facts.region, lambda: Clients(facts.region))
    with ThreadPoolExecutor(len(names)) as threads:
        allowed = dict(
            zip(names, threads.map(lambda name: _may_create_service_role(clients, facts, principal, name), names), strict=True)
        )
    return frozenset(service for service, may in allowed.items() if not may)


def _may_create_service_role(clients: Clients, facts: Facts, principal: str, service: str) -> bool:
    resource = f"arn:{facts.partition}:iam::{facts.caller.account}:role/aws-service-role/{service}/{SERVICE_ROLES[service]}"
    context = {"iam:AWSServiceName": service}
    results = query(
        facts.region, lambda: simulate_actions(clients, principal, ["iam:CreateServiceLinkedRole"], resource, context)
    )
    return all(result.decision != "denied" for result in results)
