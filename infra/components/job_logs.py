"""Logs of jobs in CloudWatch Logs."""

from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from infra.naming import COMPONENT, Naming


@dataclass(frozen=True)
class JobLogsArgs:
    naming: Naming
    key_arn: pulumi.Input[str]
    retention_days: int


class JobLogs(pulumi.ComponentResource):
    """Creates:
    - an encrypted log group with a retention period, in which each pod of a job writes its own log stream
    """

    def __init__(self, name: str, args: JobLogsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{COMPONENT}:JobLogs", name, None, opts)
        self._group = aws.cloudwatch.LogGroup(
            f"{name}-group",
            name=args.naming.job_logs,
            retention_in_days=args.retention_days,
            kms_key_id=args.key_arn,
            tags=args.naming.tags(Name=f"{name}-group"),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs({"arn": self.arn})

    @property
    def arn(self) -> pulumi.Output[str]:
        return self._group.arn
