"""Permissions: policies must allow every request to every service.

`needs` finds the actions and resources for which a request needs permission, and `keys` finds the request's condition
keys. For each action and resource, `decisions` evaluates the policies of the organization, the caller, the resource and
the VPC endpoints in the path. The caller's policies are the identity policies, the permissions boundary and the session
policy. docs/concepts/local-aws.md lists what is not checked.
"""

from localcloud.aws import identity, service_linked_roles
from localcloud.aws.call import Call
from localcloud.aws.permissions import decisions, denials, keys, needs, resource_policies
from localcloud.aws.policy_evaluation import Request, UnknownPolicyElement

NO_PERMISSION_NEEDED = {("sts", "GetCallerIdentity"), ("sts", "GetSessionToken")}
"""https://docs.aws.amazon.com/STS/latest/APIReference/API_GetCallerIdentity.html, .../API_GetSessionToken.html"""


def check(call: Call) -> None:
    """Raise AWS's error if a policy denies the request, or no policy allows it."""
    if not call.access_key and call.service != "s3":
        raise denials.missing_signature_error(call)
    if (call.service, call.operation) in NO_PERMISSION_NEEDED:
        return
    principal = {"AWS": identity.principal_arn(call)} if call.access_key else {}
    context = keys.read_request_keys(call)
    needed = list(needs.find_required_permissions(call))
    for need in needed:
        for resource in need.resources:
            condition_keys = {**context, **keys.read_resource_keys(call, need.action, resource), **need.keys}
            request = Request(need.action, resource, condition_keys, principal)
            try:
                reason = decisions.find_denial_reason(call, request, resource_policies.find_resource_policy(call, request))
            except UnknownPolicyElement as error:  # be at least as strict as AWS: an unsupported element never allows a request
                reason = f"because a policy contains an element that the local cloud does not support: {error}"
            if reason:
                raise denials.build_denial_error(call, request, need, reason)
    for need in needed:
        if need.action == "iam:CreateServiceLinkedRole" and call.operation != "CreateServiceLinkedRole":
            service = str(need.keys["iam:AWSServiceName"])
            if service in service_linked_roles.NAMES:  # the role that FSx creates for each linked file system is not emulated
                service_linked_roles.ensure_role_exists(call.account, service)
