"""Decide whether the policies of the organization, the caller, the resource and the VPC endpoints permit a request.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html,
https://docs.aws.amazon.com/vpc/latest/privatelink/vpc-endpoints-access.html
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from localcloud.aws import identity
from localcloud.aws.call import Call
from localcloud.aws.permissions import organization
from localcloud.aws.permissions.actions import get_action_prefix
from localcloud.aws.permissions.resource_policies import ResourcePolicy
from localcloud.aws.policy_evaluation import Decision, Policy, Request, evaluate_request, parse_document


def find_denial_reason(call: Call, request: Request, of_resource: ResourcePolicy) -> str | None:
    """Return the reason why AWS denies the request, in AWS's wording, or None if the policies allow it.

    Reasons: https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_access-denied.html
    """
    policies = identity.find_caller_policies(call)
    by_kind: dict[str, tuple[Policy, ...]] = {
        organization.KIND: organization.list_policies() if call.access_key else (),
        "identity-based policy": policies.identity,
        "permissions boundary": policies.boundary,
        "session policy": policies.session,
        "resource-based policy": (of_resource.policy,) if of_resource.policy else (),
        "VPC endpoint policy": tuple(_find_endpoint_policies(call))
        if request.action.startswith(_get_action_prefix(call))
        else (),
    }
    decisions = {kind: evaluate_request(request, *policies) for kind, policies in by_kind.items() if policies}
    for kind, decision in decisions.items():
        if decision == "explicit deny":
            return f"with an explicit deny in {_add_article(kind)}"
    return _find_implicit_denial_reason(request, of_resource, decisions, bool(call.access_key))


def _find_implicit_denial_reason(
    request: Request, of_resource: ResourcePolicy, decisions: dict[str, Decision], signed: bool
) -> str | None:
    """Return the reason why the request is implicitly denied: no policy of a required kind allows it. None if the
    request is allowed.

    A resource policy is sufficient if its principal is the caller. If its principal is the account, an identity policy
    must also allow the request. On AWS, a resource policy with a role session as principal also overrides boundaries.
    Here, boundaries always apply.
    """
    allowed = {kind for kind, decision in decisions.items() if decision == "allow"}
    directly = (
        bool(of_resource.policy) and evaluate_request(replace(request, via_account=False), of_resource.policy or {}) == "allow"
    )
    if of_resource.must_allow and "resource-based policy" not in allowed:
        return _explain_missing_allow("resource-based policy", request)
    for kind in ("VPC endpoint policy", "permissions boundary", "session policy"):
        if kind in decisions and kind not in allowed:
            return _explain_missing_allow(kind, request)
    if directly or (signed and "identity-based policy" in allowed):
        return None
    return _explain_missing_allow("identity-based policy" if signed else "resource-based policy", request)


def _get_action_prefix(call: Call) -> str:
    """Return the prefix of the actions to which VPC endpoint policies apply.

    Other actions belong to requests between services, which do not pass through VPC endpoints.
    """
    return f"{get_action_prefix(call.service)}:"


def _explain_missing_allow(kind: str, request: Request) -> str:
    return f"because no {kind} allows the {request.action} action"


def _add_article(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def _find_endpoint_policies(call: Call) -> Iterator[Policy]:
    """Yield the policies of the VPC endpoints through which the request reaches its service.

    The local AWS knows the subnet only for sessions of instances and pods.
    """
    session = identity.find_session(call)
    if session is None or not (subnets := identity.read_session_subnets(session)):
        return
    ec2 = call.backend_of("ec2")
    for endpoint in ec2.vpc_end_points.values():
        is_its_service = endpoint.service_name == f"com.amazonaws.{call.region}.{call.service}"
        if (
            is_its_service
            and endpoint.state == "available"
            and any(_is_routed_through(ec2, endpoint, subnet) for subnet in subnets)
        ):
            yield parse_document(endpoint.policy_document)


def _is_routed_through(ec2: Any, endpoint: Any, subnet_id: str) -> bool:
    """Return whether requests from the subnet reach the endpoint's service through the endpoint.

    An interface endpoint needs private DNS; a gateway endpoint needs a route.
    """
    subnet = next((zone[subnet_id] for zone in ec2.subnets.values() if subnet_id in zone), None)
    if subnet is None or subnet.vpc_id != endpoint.vpc_id:
        return False
    if endpoint.vpc_endpoint_type == "Interface":
        return bool(endpoint.private_dns_enabled)
    return _find_route_table_id(ec2, subnet) in endpoint.route_table_ids


def _find_route_table_id(ec2: Any, subnet: Any) -> str | None:
    """Return the ID of the subnet's route table: its own, or the main table of its VPC."""
    tables = [table for table in ec2.route_tables.values() if table.vpc_id == subnet.vpc_id]
    own = [table.id for table in tables if subnet.id in table._associations.values()]
    main = [table.id for table in tables if table.main_association_id is not None]
    return next(iter([*own, *main]), None)
