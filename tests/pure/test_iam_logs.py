"""Actions that the policies for log groups allow and deny."""

import pytest

from localcloud.aws.policy_evaluation import Request, allows
from tests.pure.test_iam import IDENTITY, JOB_LOGS, LOG_GROUP, POD


@pytest.mark.parametrize(
    ("action", "resource", "allowed"),
    [
        ("logs:PutLogEvents", f"{LOG_GROUP}:log-stream:eni-1", True),
        ("logs:CreateLogStream", f"{LOG_GROUP}:log-stream:eni-1", True),
        ("logs:PutLogEvents", f"{LOG_GROUP}-of-others:log-stream:eni-1", False),
        ("logs:CreateLogGroup", LOG_GROUP, False),
        ("logs:DeleteLogGroup", LOG_GROUP, False),
    ],
)
def test_flow_logs_can_be_written_only_to_their_log_group(action: str, resource: str, allowed: bool) -> None:
    assert allows(Request(action, resource), IDENTITY["allow_flow_log_delivery"]) is allowed


@pytest.mark.parametrize(
    ("action", "resource", "allowed"),
    [
        ("logs:CreateLogStream", f"{JOB_LOGS}:log-stream:mpi-jobs/mnist/7/mnist-worker-0", True),
        ("logs:PutLogEvents", f"{JOB_LOGS}:log-stream:mpi-jobs/mnist/7/mnist-worker-0", True),
        ("logs:PutLogEvents", f"{JOB_LOGS}:log-stream:mpi-jobs/mnist/7/mnist-worker-1", False),
        ("logs:PutLogEvents", f"{JOB_LOGS}:log-stream:other/mnist/7/mnist-worker-0", False),
        ("logs:PutLogEvents", f"{LOG_GROUP}:log-stream:mpi-jobs/mnist/7/mnist-worker-0", False),
        ("logs:GetLogEvents", f"{JOB_LOGS}:log-stream:mpi-jobs/mnist/7/mnist-worker-0", False),
        ("logs:DeleteLogStream", f"{JOB_LOGS}:log-stream:mpi-jobs/mnist/7/mnist-worker-0", False),
        ("logs:PutRetentionPolicy", JOB_LOGS, False),
    ],
)
def test_a_job_pod_writes_only_log_streams_with_its_own_name(action: str, resource: str, allowed: bool) -> None:
    assert allows(Request(action, resource, POD), IDENTITY["allow_job_log_writes"]) is allowed
    assert not allows(Request(action, resource), IDENTITY["allow_job_log_writes"])
