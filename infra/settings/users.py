"""`target.users`: people and pipelines that run jobs without being cluster administrators."""

from typing import Literal

from pydantic import Field

from infra.config.models import Model, Names

JobAccess = Literal["view", "submit"]


class JobUser(Model):
    """What a user may do, and in which job namespaces."""

    namespaces: Names = Field(
        (),
        description="Job namespaces, from `platform.namespaces`; by default the first one. Change: in place.",
    )
    access: JobAccess = Field(
        "submit",
        description="`view`: read jobs, their logs and records; `submit`: also submit, cancel and delete jobs, and connect to "
        "their pods. Neither reads Secrets. Change: in place.",
    )


class IamUser(JobUser):
    """A job user of an EKS cluster: an IAM principal or a permission set."""

    principal: str | None = Field(
        None,
        examples=["arn:aws:iam::123456789012:role/Researcher"],
        description="ARN of an IAM user or role. Change: replaces the access entry; sessions of the old principal lose access.",
    )
    permission_set: str | None = Field(
        None,
        examples=["Researcher"],
        description="Name of a permission set of IAM Identity Center that is assigned in this account. Change: replaces the "
        "access entry; sessions of the old role lose access. If Identity Center has recreated the role, the next `pulumi up` "
        "uses the new one.",
    )


class KubernetesUser(JobUser):
    """A job user of an existing cluster, as the cluster authenticates it."""

    user: str | None = Field(
        None,
        examples=["ada@example.com"],
        description="Kubernetes user name, as `kubectl auth whoami` prints it. Change: in place.",
    )
    group: str | None = Field(None, examples=["research"], description="Kubernetes group. Change: in place.")
