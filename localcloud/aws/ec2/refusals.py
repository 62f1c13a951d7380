"""Errors that several EC2 operations share, in AWS's wording.

Codes: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
"""

import re
from typing import Any

from moto.core.exceptions import ServiceException
from moto.ec2.exceptions import EC2ClientError

from localcloud.aws.call import Call
from localcloud.aws.errors import AwsError

_SET = re.compile(r"\{'[^'{}]*'(?:, '[^'{}]*')*\}")
"""Python's notation of a set of strings, which moto inserts into messages."""


def extend_moto() -> None:
    """List the missing IDs in messages of moto's errors as EC2 does: `'vpc-1, vpc-2'`."""

    def init_error(self: Any, *texts: Any) -> None:
        ServiceException.__init__(self, *(_SET.sub(_format_id_list, text) if isinstance(text, str) else text for text in texts))

    EC2ClientError.__init__ = init_error  # type: ignore[method-assign]


def _format_id_list(list_match: re.Match[str]) -> str:
    return ", ".join(sorted(re.findall(r"'([^']*)'", list_match[0])))


def build_missing_parameter_error(parameter: str) -> AwsError:
    return AwsError("MissingParameter", f"The request must contain the parameter {parameter}")


def build_invalid_value_error(value: object, parameter: str, reason: str) -> AwsError:
    return AwsError("InvalidParameterValue", f"Value ({value}) for parameter {parameter} is invalid. {reason}")


def build_not_found_error(code: str, what: str, identifier: str) -> AwsError:
    return AwsError(code, f"The {what} '{identifier}' does not exist")


def build_in_use_error(what: str, identifier: str) -> AwsError:
    return AwsError("DependencyViolation", f"The {what} '{identifier}' has dependencies and cannot be deleted.")


def stop_dry_run(call: Call) -> None:
    """Raise DryRunOperation if the request sets DryRun. Call this before the request changes anything."""
    if call.params.get("DryRun"):
        raise AwsError("DryRunOperation", "Request would have succeeded, but DryRun flag is set.", 412)
