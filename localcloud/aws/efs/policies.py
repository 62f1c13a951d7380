"""Policies of an EFS file system: resource policy, backup policy and lifecycle policy."""

from typing import Any

from localcloud.aws import durations, identity, policy_documents
from localcloud.aws.call import Call
from localcloud.aws.efs.states import build_bad_request_error, build_efs_error, find_file_system
from localcloud.aws.iam import check_principals
from localcloud.aws.patching import operation
from localcloud.aws.policy_documents import InvalidPolicy
from localcloud.aws.policy_evaluation import Request, evaluate_request

_AGES = {f"AFTER_{days}_DAYS" if days > 1 else "AFTER_1_DAY" for days in (1, 7, 14, 30, 60, 90, 180, 270, 365)}


@operation("efs", "PutFileSystemPolicy")
def _put_file_system_policy(call: Call) -> dict[str, Any]:
    """https://docs.aws.amazon.com/efs/latest/ug/API_PutFileSystemPolicy.html"""
    file_system = find_file_system(call, ready=True)
    try:
        document = policy_documents.parse_policy(call.params["Policy"])
        for statement in policy_documents.list_statements(document):
            _check_statement(call, statement, file_system.file_system_arn)
    except InvalidPolicy as error:
        raise build_efs_error("InvalidPolicyException", str(error)) from None
    context, principal = {"aws:SecureTransport": True}, {"AWS": identity.principal_arn(call)}
    who = Request("elasticfilesystem:PutFileSystemPolicy", file_system.file_system_arn, context, principal)
    if not call.params.get("BypassPolicyLockoutSafetyCheck") and evaluate_request(who, document) == "explicit deny":
        raise build_efs_error("InvalidPolicyException", "The policy would prevent the caller from changing the policy again.")
    file_system.file_system_policy = call.params["Policy"]
    return {"FileSystemId": file_system.file_system_id, "Policy": file_system.file_system_policy}


def _check_statement(call: Call, statement: dict[str, Any], arn: str) -> None:
    if not list(policy_documents.list_principals(statement)):
        raise InvalidPolicy("Missing required field Principal")
    if not all(action == "*" or action.startswith("elasticfilesystem:") for action in policy_documents.list_actions(statement)):
        raise InvalidPolicy("A file system policy can only contain elasticfilesystem actions")
    if not all(resource in ("*", arn) for resource in policy_documents.list_resources(statement)):
        raise InvalidPolicy(f"The only resource allowed in this policy is {arn}")
    check_principals(call, statement)


@operation("efs", "DescribeFileSystemPolicy")
def _describe_file_system_policy(call: Call) -> dict[str, Any]:
    file_system = find_file_system(call)
    if not file_system.file_system_policy:
        raise build_efs_error("PolicyNotFound", f"File system '{file_system.file_system_id}' has no policy.")
    return {"FileSystemId": file_system.file_system_id, "Policy": file_system.file_system_policy}


@operation("efs", "DeleteFileSystemPolicy")
def _delete_file_system_policy(call: Call) -> None:
    find_file_system(call, ready=True).file_system_policy = None


@operation("efs", "PutBackupPolicy")
def _put_backup_policy(call: Call) -> dict[str, Any]:
    """https://docs.aws.amazon.com/efs/latest/ug/API_PutBackupPolicy.html"""
    file_system = find_file_system(call, ready=True)
    status = call.params["BackupPolicy"]["Status"]
    if status not in ("ENABLED", "DISABLED"):
        raise build_efs_error("ValidationException", f"Value '{status}' at 'backupPolicy.status' must be ENABLED or DISABLED")
    file_system._local_cloud_backup = {"Status": "DISABLED"}
    pending = {"ENABLED": "ENABLING", "DISABLED": "DISABLING"}[status]
    durations.schedule(file_system._local_cloud_backup, "Status", pending, status, "efs-backup-policy")
    return {"BackupPolicy": dict(file_system._local_cloud_backup)}


@operation("efs", "DescribeBackupPolicy")
def _describe_backup_policy(call: Call) -> dict[str, Any]:
    file_system = find_file_system(call)
    policy = getattr(file_system, "_local_cloud_backup", None) or file_system.backup_policy
    if not policy:
        raise build_efs_error("PolicyNotFound", f"File system '{file_system.file_system_id}' has no backup policy.")
    return {"BackupPolicy": policy}


@operation("efs", "PutLifecycleConfiguration")
def _put_lifecycle_configuration(call: Call) -> dict[str, Any]:
    """https://docs.aws.amazon.com/efs/latest/ug/API_PutLifecycleConfiguration.html"""
    file_system = find_file_system(call, ready=True)
    policies = call.params["LifecyclePolicies"]
    for policy in policies:
        if len(policy) != 1:
            raise build_bad_request_error("Each LifecyclePolicy object must have exactly one transition.")
        (transition, age) = next(iter(policy.items()))
        if age not in ({"AFTER_1_ACCESS"} if transition == "TransitionToPrimaryStorageClass" else _AGES):
            raise build_efs_error("ValidationException", f"Value '{age}' is not valid for {transition}")
    named = {name for policy in policies for name in policy}
    if len(named) != len(policies):
        raise build_bad_request_error("Each transition may be specified only once.")
    if "TransitionToArchive" in named and file_system.throughput_mode != "elastic":
        raise build_bad_request_error("TransitionToArchive is supported only for file systems with elastic throughput.")
    file_system.lifecycle_policies = policies
    return {"LifecyclePolicies": policies}


@operation("efs", "DescribeLifecycleConfiguration")
def _describe_lifecycle_configuration(call: Call) -> dict[str, Any]:
    return {"LifecyclePolicies": find_file_system(call).lifecycle_policies}
