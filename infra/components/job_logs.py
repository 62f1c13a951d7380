"""Logs of jobs in CloudWatch Logs."""

import pulumi
import pulumi_aws as aws

from infra.components.children import build_child_args
from infra.naming import COMPONENT, Naming


class JobLogs(pulumi.ComponentResource):
    """Creates:
    - an encrypted log group with a retention period, in which each pod of a job writes its own log stream
    """

    def __init__(
        self,
        name: str,
        naming: Naming,
        key_arn: pulumi.Input[str],
        retention_days: int,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(f"{COMPONENT}:JobLogs", name, None, opts)
        group = aws.cloudwatch.LogGroup(
            **build_child_args(self, naming, f"{name}-group"),
            name=naming.job_logs,
            retention_in_days=retention_days,
            kms_key_id=key_arn,
        )
        self.arn = group.arn
        self.register_outputs({"arn": self.arn})
