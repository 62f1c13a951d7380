"""CloudWatch Logs: validation of requests that AWS rejects and moto accepts, and log groups that AWS services recreate."""

import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from localcloud.aws import clock, durations
from localcloud.aws.call import Call
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import get_state, operation
from localcloud.aws.policy_evaluation import Request, allows, parse_document

RETENTION_DAYS = (1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653)
"""https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutRetentionPolicy.html"""
BATCH_BYTES, BATCH_EVENTS, EVENT_OVERHEAD, BATCH_HOURS = 1_048_576, 10_000, 26, 24
"""https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutLogEvents.html"""
_NAME = re.compile(r"[.\-_/#A-Za-z0-9]{1,512}")
LATE: Final = timedelta(minutes=10)
"""How long a service may still deliver the logs of a deleted resource (an estimate)."""


def extend_moto() -> None:
    """Do nothing: importing this module has already registered its operations."""


@operation("logs", "CreateLogGroup")
def _create_log_group(call: Call) -> dict[str, Any]:
    """https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_CreateLogGroup.html"""
    name = call.params["logGroupName"]
    if not _NAME.fullmatch(name):
        raise _build_invalid_parameter_error(
            "logGroupName", name, r"Member must satisfy regular expression pattern: [\.\-_/#A-Za-z0-9]+"
        )
    if name.startswith("aws/"):
        raise AwsError("InvalidParameterException", "Log groups starting with aws/ are reserved for AWS.")
    if key := call.params.get("kmsKeyId"):
        _check_key(call, key, name)
    return call.moto()


@operation("logs", "AssociateKmsKey")
def _associate_kms_key(call: Call) -> dict[str, Any]:
    _check_key(call, call.params["kmsKeyId"], call.params.get("logGroupName", ""))
    return call.moto()


@operation("logs", "DisassociateKmsKey")
def _disassociate_kms_key(call: Call) -> None:
    """https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_DisassociateKmsKey.html"""
    group = call.backend.groups.get(call.params.get("logGroupName", ""))
    if group is None:
        raise AwsError("ResourceNotFoundException", "The specified log group does not exist.")
    group.kms_key_id = None


def _check_key(call: Call, key_arn: str, name: str) -> None:
    """Check that the key policy allows CloudWatch Logs to use the key.

    https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/encrypt-log-data-kms.html
    """
    if not key_arn.startswith("arn:"):
        raise AwsError("InvalidParameterException", f"The specified KMS Key Id {key_arn} is not a valid ARN.")
    group = f"arn:aws:logs:{call.region}:{call.account}:log-group:{name}"
    key = call.backend_of("kms").keys.get(key_arn.rsplit("/", 1)[-1])
    context = {"kms:encryptioncontext:aws:logs:arn": group}
    request = Request("kms:Encrypt", key_arn, context, {"Service": f"logs.{call.region}.amazonaws.com"})
    if key is None or key.key_state != "Enabled" or not allows(request, parse_document(key.policy)):
        message = f"The specified KMS key does not exist or is not allowed to be used with LogGroup '{group}'"
        raise AwsError("InvalidParameterException", message)


@operation("logs", "PutRetentionPolicy")
def _put_retention_policy(call: Call) -> dict[str, Any]:
    days = call.params["retentionInDays"]
    if days not in RETENTION_DAYS:
        allowed = ", ".join(map(str, RETENTION_DAYS))
        raise _build_invalid_parameter_error("retentionInDays", str(days), f"Member must satisfy enum value set: [{allowed}]")
    return call.moto()


@operation("logs", "DeleteLogGroup")
def _delete_log_group(call: Call) -> dict[str, Any]:
    """Delete a log group and its tags. moto would keep the tags for the next log group of the same name."""
    name = call.params["logGroupName"]
    group = call.backend.groups.get(name)
    answer = call.moto()
    if group is not None:
        call.backend.tagger.delete_all_tags_for_resource(group.arn)
    until = get_state(call.backend, _Late).until.pop(name, None)
    if until is not None and clock.now() < until:
        _Delivery(call.backend, name).start()
    return answer


def start_late_delivery(backend: Any, name: str) -> None:
    """Let a service write to a log group after the service's resource was deleted. If the log group is deleted before
    the end of this period, the service recreates it, without retention, key and tags."""
    if name in backend.groups:
        get_state(backend, _Late).until[name] = clock.now() + LATE
    else:
        _Delivery(backend, name).start()


@dataclass
class _Late:
    until: dict[str, datetime] = field(default_factory=dict)
    """Maps the name of each log group to which a service still delivers logs to the end of the delivery."""


@dataclass(eq=False)
class _Delivery:
    backend: Any
    name: str
    phase: str = ""

    def start(self) -> None:
        failed = durations.make_failure_handler(self, "phase", "failed")
        durations.schedule(self, "phase", "waiting", "done", "logs-late-delivery", then=self._write, fail=failed)

    def _write(self) -> None:
        if self.name not in self.backend.groups:
            self.backend.create_log_group(self.name, {}).is_made_by_aws = True


@operation("logs", "CreateLogStream")
def _create_log_stream(call: Call) -> dict[str, Any]:
    """https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_CreateLogStream.html"""
    name = call.params["logStreamName"]
    if not re.fullmatch(r"[^:*]{1,512}", name):
        raise _build_invalid_parameter_error("logStreamName", name, "Member must satisfy regular expression pattern: [^:*]*")
    return call.moto()


@operation("logs", "PutLogEvents")
def _put_log_events(call: Call) -> dict[str, Any]:
    events = call.params["logEvents"]
    size = sum(len(event["message"].encode()) + EVENT_OVERHEAD for event in events)
    if not 1 <= len(events) <= BATCH_EVENTS:
        raise _build_invalid_parameter_error(
            "logEvents", f"{len(events)} events", f"Member must have length between 1 and {BATCH_EVENTS}"
        )
    if size > BATCH_BYTES:
        raise AwsError("InvalidParameterException", f"Upload too large: {size} bytes exceeds limit of {BATCH_BYTES}")
    times = [event["timestamp"] for event in events]
    if max(times) - min(times) > BATCH_HOURS * 3_600_000:
        message = f"The batch of log events in a single PutLogEvents request cannot span more than {BATCH_HOURS} hours."
        raise AwsError("InvalidParameterException", message)
    return call.moto()


def _build_invalid_parameter_error(parameter: str, value: str, constraint: str) -> AwsError:
    return AwsError(
        "InvalidParameterException",
        f"1 validation error detected: Value '{value}' at '{parameter}' failed to satisfy constraint: {constraint}",
    )
