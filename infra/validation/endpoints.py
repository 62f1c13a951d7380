"""Rules for the interface endpoints of a new VPC: AWS does not offer every service in every Region and zone."""

from collections.abc import Iterator

from infra.config.messages import all_of
from infra.config.problems import Problem, warning
from infra.facts.model import Facts
from infra.plan.aws_services import GUESSED_NAMES, essential, wanted_endpoints
from infra.plan.placement import vpc_zones
from infra.settings.stack import Settings

WHERE = "network.interfaceEndpoints"
NAT = "Replace interfaceEndpoints with natGateways: one"


def offered(settings: Settings, facts: Facts) -> Iterator[Problem]:
    services = wanted_endpoints(settings)
    if not services:
        return
    if facts.endpoint_services is None:
        if facts.partition not in GUESSED_NAMES:
            reason = f"the names of endpoint services in {facts.partition} could not be listed and cannot be derived"
            yield Problem(WHERE, f"{reason}. Allow {facts.caller.arn} to call ec2:DescribeVpcEndpointServices.")
        return
    absent = [one for one in services if one not in facts.endpoint_services]
    if needed := essential(settings, absent):
        yield Problem(WHERE, f"{facts.region} has no interface endpoint for {all_of(needed)}. {NAT}, or use another Region.")
    elif absent:
        effect = "Nodes join and run jobs, but Session Manager or container logs do not work."
        yield warning(WHERE, f"{facts.region} has no interface endpoint for {all_of(absent)}. {effect}")
    yield from _in_zones(settings, facts, [one for one in services if one not in absent])


def _in_zones(settings: Settings, facts: Facts, services: list[str]) -> Iterator[Problem]:
    """Check that AWS offers every endpoint in each zone of the VPC, because each endpoint gets an interface in each
    zone."""
    known = facts.endpoint_services or {}
    complete = [zone.name for zone in facts.zones if all(zone.name in known[one].zones for one in services)]
    for zone in vpc_zones(settings, facts):
        lacking = [one for one in services if zone not in known[one].zones]
        if lacking:
            names = settings.network.zone_names
            where = f"network.zones[{names.index(zone)}]" if zone in names else "network.zones"
            fix = f"Choose from {all_of(complete)}." if complete else f"{NAT}."
            yield Problem(where, f"{zone} has no interface endpoint for {all_of(lacking)}. {fix}")
