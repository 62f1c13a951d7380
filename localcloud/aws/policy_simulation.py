"""IAM's policy simulator for a user, group or role: SimulatePrincipalPolicy.

https://docs.aws.amazon.com/IAM/latest/APIReference/API_SimulatePrincipalPolicy.html. The simulator uses the same
evaluator as the permission checks for requests. Like AWS's simulator, it uses only the context that the caller passes.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from localcloud.aws.call import Call
from localcloud.aws.errors import AwsError
from localcloud.aws.identity import find_role_policies, list_policy_documents
from localcloud.aws.patching import operation
from localcloud.aws.permissions import organization
from localcloud.aws.policy_evaluation import (
    Policy,
    Request,
    UnknownPolicyElement,
    evaluate_request,
    list_statements,
    parse_document,
    to_list,
)
from localcloud.aws.policy_evaluation import action_matches as matches

_DECISIONS = {"allow": "allowed", "explicit deny": "explicitDeny", "implicit deny": "implicitDeny"}
_SOURCE = re.compile(r"arn:aws[a-z-]*:iam::\d{12}:(?P<kind>user|group|role)/(?:.*/)?(?P<name>[^/]+)")
_NOT_SUPPORTED = ("PolicyInputList", "PermissionsBoundaryPolicyInputList", "PolicyExclusionList", "ResourcePolicy", "CallerArn")


def extend_moto() -> None:
    """Do nothing: importing this module has already registered its operation."""


@operation("iam", "SimulatePrincipalPolicy")
def _simulate_principal_policy(call: Call) -> dict[str, Any]:
    params = call.params
    for name in _NOT_SUPPORTED:
        if params.get(name):
            raise AwsError("NotImplementedInLocalCloud", f"The local cloud does not support {name} in SimulatePrincipalPolicy.")
    identity, boundary = _find_policies(call, params["PolicySourceArn"])
    context = {entry["ContextKeyName"]: _read_context_values(entry) for entry in params.get("ContextEntries", ())}
    resources = params.get("ResourceArns") or ["*"]
    for action in params["ActionNames"]:
        if not re.fullmatch(r"[a-z0-9-]+:[A-Za-z0-9]+", action):
            raise AwsError("InvalidInput", f"Invalid action name: {action}")
    results = [_build_result(action, resources, context, identity, boundary) for action in params["ActionNames"]]
    return _paginate(results, params)


def _paginate(results: list[dict[str, Any]], params: Mapping[str, Any]) -> dict[str, Any]:
    marker = params.get("Marker", "0")
    if not marker.isdigit():
        raise AwsError("InvalidInput", "Invalid Marker.")
    end = int(marker) + params.get("MaxItems", 100)
    more = {"Marker": str(end)} if end < len(results) else {}
    return {"EvaluationResults": results[int(marker) : end], "IsTruncated": bool(more), **more}


def _find_policies(call: Call, arn: str) -> tuple[tuple[Policy, ...], tuple[Policy, ...]]:
    """Return the identity policies and the permissions boundary of a user, group or role."""
    source = _SOURCE.fullmatch(arn)
    if source is None:
        raise AwsError("InvalidInput", f"Invalid Entity Arn: {arn} does not clearly define entity type and name.")
    iam = call.backend
    entities = {"user": iam.users, "group": iam.groups, "role": iam.roles}[source["kind"]].values()
    entity = next((candidate for candidate in entities if candidate.arn == arn), None)
    if entity is None:
        raise AwsError("NoSuchEntity", f"The {source['kind']} with name {source['name']} cannot be found.", 404)
    if source["kind"] == "group":
        return tuple(map(parse_document, list_policy_documents(entity))), ()
    policies = find_role_policies(iam, entity)
    groups = [group for group in iam.groups.values() if source["kind"] == "user" and entity in group.users]
    return (
        *policies.identity,
        *(parse_document(text) for group in groups for text in list_policy_documents(group)),
    ), policies.boundary


def _read_context_values(entry: Mapping[str, Any]) -> Any:
    values = entry.get("ContextKeyValues") or []
    return tuple(values) if str(entry.get("ContextKeyType", "")).endswith("List") else (values[0] if values else "")


def _build_result(
    action: str, resources: Sequence[str], context: Mapping[str, Any], identity: tuple[Policy, ...], boundary: tuple[Policy, ...]
) -> dict[str, Any]:
    verdicts = {resource: _evaluate_request(Request(action, resource, context), identity, boundary) for resource in resources}
    missing = _find_missing_keys(action, context, (*identity, *boundary))
    worst = next(
        (verdict for kind in ("explicitDeny", "implicitDeny") for verdict in verdicts.values() if verdict == kind), "allowed"
    )
    result: dict[str, Any] = {
        "EvalActionName": action,
        "EvalResourceName": "*",
        "EvalDecision": worst,
        "MatchedStatements": [],
        "MissingContextValues": missing,
    }
    if organization.list_policies():
        allowed = evaluate_request(Request(action, "*", context), *organization.list_policies()) == "allow"
        result["OrganizationsDecisionDetail"] = {"AllowedByOrganizations": allowed}
    if boundary:
        inside = all(evaluate_request(Request(action, resource, context), *boundary) == "allow" for resource in resources)
        result["PermissionsBoundaryDecisionDetail"] = {"AllowedByPermissionsBoundary": inside}
    if list(resources) != ["*"]:
        result["ResourceSpecificResults"] = [
            {
                "EvalResourceName": resource,
                "EvalResourceDecision": verdict,
                "MatchedStatements": [],
                "MissingContextValues": missing,
            }
            for resource, verdict in verdicts.items()
        ]
    return result


def _evaluate_request(request: Request, identity: tuple[Policy, ...], boundary: tuple[Policy, ...]) -> str:
    """Return the decision. If a policy contains an unsupported element, the decision is an implicit deny."""
    try:
        kinds = [
            evaluate_request(request, *policies) for policies in (identity, boundary, organization.list_policies()) if policies
        ]
    except UnknownPolicyElement:
        return "implicitDeny"
    if not identity:
        kinds.append("implicit deny")
    order = ("explicit deny", "implicit deny", "allow")
    return _DECISIONS[min(kinds, key=order.index)]


def _find_missing_keys(action: str, context: Mapping[str, Any], policies: Iterable[Policy]) -> list[str]:
    """Return the condition keys that statements about the action use but the caller did not pass."""
    passed_keys = {name.lower() for name in context}
    keys: dict[str, str] = {}
    for policy in policies:
        for statement in list_statements(policy):
            if matches(statement, Request(action)):
                for tests in statement.get("Condition", {}).values():
                    keys |= {key.lower(): key for key in to_list(list(tests))}
    return [key for name, key in keys.items() if name not in passed_keys]
