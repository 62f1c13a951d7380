"""Which users may view or submit jobs in which namespaces. Pure."""

from collections import defaultdict
from collections.abc import Iterable

from infra.facts.model import Facts
from infra.naming import JOB_USERS, build_user_group
from infra.plan.specs import JobUsersSpec, Subject
from infra.settings.existing import ExistingSettings
from infra.settings.platform import CommonPlatformSettings
from infra.settings.stack import Settings
from infra.settings.users import IamUser, JobAccess, JobUser, KubernetesUser


def list_user_namespaces(user: JobUser, platform: CommonPlatformSettings) -> tuple[str, ...]:
    """Return the job namespaces to which a user has access."""
    return user.namespaces or platform.namespace_names[:1]


def resolve_principal(user: IamUser, facts: Facts) -> str | None:
    """Return the ARN of the IAM user or role behind a job user; None unless a permission set has exactly one role."""
    if user.principal is not None:
        return user.principal
    roles = facts.permission_sets.get(user.permission_set or "", ())
    return roles[0] if len(roles) == 1 else None


def plan_access_entries(settings: Settings, facts: Facts) -> dict[str, tuple[str, ...]]:
    """Return the Kubernetes groups of each principal among the job users of an EKS cluster, by ARN."""
    groups: dict[str, set[str]] = defaultdict(set)
    for user in settings.eks.users:
        if (arn := resolve_principal(user, facts)) is not None:
            names = list_user_namespaces(user, settings.platform)
            groups[arn] |= {JOB_USERS, *(build_user_group(user.access, name) for name in names)}
    return {arn: tuple(sorted(names)) for arn, names in sorted(groups.items())}


def plan_eks_users(settings: Settings) -> JobUsersSpec:
    """Return the groups that access entries name, for the namespaces that have users. They do not depend on facts, so a
    recreated role of a permission set changes only its access entry."""
    return _group_subjects(
        (name, user.access, Subject("Group", JOB_USERS), Subject("Group", build_user_group(user.access, name)))
        for user in settings.eks.users
        for name in list_user_namespaces(user, settings.platform)
    )


def plan_existing_users(settings: ExistingSettings) -> JobUsersSpec:
    """Return the users and groups of an existing cluster."""
    return _group_subjects(
        (name, user.access, _find_subject(user), _find_subject(user))
        for user in settings.target.users
        for name in list_user_namespaces(user, settings.platform)
    )


def _find_subject(user: KubernetesUser) -> Subject:
    return Subject("User", user.user) if user.user is not None else Subject("Group", user.group or "")


def _group_subjects(users: Iterable[tuple[str, JobAccess, Subject, Subject]]) -> JobUsersSpec:
    """Group `(namespace, access, subject in the cluster, subject in the namespace)`."""
    everyone: set[Subject] = set()
    by_namespace: dict[tuple[str, JobAccess], set[Subject]] = defaultdict(set)
    for namespace, access, in_cluster, in_namespace in users:
        everyone.add(in_cluster)
        by_namespace[namespace, access].add(in_namespace)
    return JobUsersSpec(tuple(sorted(everyone)), {key: tuple(sorted(own)) for key, own in sorted(by_namespace.items())})
