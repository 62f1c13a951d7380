"""Rules for `target.users`: people who run jobs without being cluster administrators."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from infra.config.messages import format_value, join_with_and
from infra.config.problems import Problem, create_warning
from infra.facts.model import Facts
from infra.facts.queries import Query
from infra.plan.job_users import list_user_namespaces, resolve_principal
from infra.settings.existing import ExistingSettings
from infra.settings.stack import Settings
from infra.settings.users import IamUser, JobUser, KubernetesUser
from infra.validation.principals import check_principal_arn, check_principal_exists
from infra.validation.registry import EKS, EXISTING, KUBERNETES, AnyStack, Topic, register_rule

ROLE_PREFIX: Final = "AWSReservedSSO_"
_PERMISSION_SET: Final = re.compile(r"[\w+=,.@-]{1,32}")
"""https://docs.aws.amazon.com/singlesignon/latest/APIReference/API_CreatePermissionSet.html"""
RESERVED: Final = "system:"
SERVICE_ACCOUNT: Final = ("system:serviceaccount:", "system:serviceaccounts:")


@register_rule(target=KUBERNETES)
def check_user_namespaces(settings: AnyStack) -> Iterator[Problem]:
    """Check that users only get access to namespaces of jobs."""
    names = settings.platform.namespace_names
    for where, user in _enumerate_users(settings):
        for index, name in enumerate(user.namespaces):
            path = f"{where}.namespaces[{index}]"
            if name not in names:
                yield Problem(path, f"{format_value(name)} is not in platform.namespaces. Add it there.")
            if name in user.namespaces[:index]:
                yield Problem(path, f"{format_value(name)} is listed twice. Remove one.")


@register_rule(target=KUBERNETES)
def check_users_are_unique(settings: AnyStack) -> Iterator[Problem]:
    yield from _find_repeated(settings, ((where, _name_user(user), user) for where, user in _enumerate_users(settings)))


@register_rule(target=EKS)
def check_iam_users(settings: Settings) -> Iterator[Problem]:
    for index, user in enumerate(settings.eks.users):
        where = f"target.users[{index}]"
        yield from _check_only_one(where, principal=user.principal, permissionSet=user.permission_set)
        if user.principal is not None:
            yield from check_principal_arn(f"{where}.principal", user.principal)
            if user.principal in settings.eks.admins:
                both = "is also in target.admins, whose members may do everything"
                yield Problem(f"{where}.principal", f"{format_value(user.principal)} {both}. Remove it from one of the two.")
        if user.permission_set is not None:
            yield from _check_permission_set_name(f"{where}.permissionSet", user.permission_set)


@register_rule(target=EKS)
def check_users_need_platform(settings: Settings) -> Iterator[Problem]:
    """Warn if users get an access entry without permissions, because the platform contains their Roles."""
    if settings.eks.users and not settings.installs_platform:
        fix = "Set platform.install: true where `pulumi up` can reach the Kubernetes API, or remove the users."
        yield create_warning("target.users", f"has no effect, because this stack does not install the platform. {fix}")


@register_rule(target=EXISTING)
def check_kubernetes_users(settings: ExistingSettings) -> Iterator[Problem]:
    for index, user in enumerate(settings.target.users):
        where = f"target.users[{index}]"
        yield from _check_only_one(where, user=user.user, group=user.group)
        for key, name in (("user", user.user), ("group", user.group)):
            if name is not None and not name.strip():
                yield Problem(f"{where}.{key}", "is empty. Set a name, or remove the entry.")
            elif name is not None and name.startswith(RESERVED) and not name.startswith(SERVICE_ACCOUNT):
                fix = "Use the name of a person, a group or a service account, as `kubectl auth whoami` prints it."
                yield Problem(f"{where}.{key}", f"{format_value(name)} is reserved for Kubernetes itself. {fix}")


@register_rule(
    Topic.USERS,
    target=EKS,
    reads=(Query.CALLER, Query.CALLER_ROLE, Query.USERS, Query.PERMISSION_SETS),
    applies=lambda settings: bool(settings.eks.users),
)
def check_users_exist(settings: Settings, facts: Facts) -> Iterator[Problem]:
    """Check that users exist, and that none of them gets two access entries, which EKS rejects."""
    resolved: list[tuple[str, str, IamUser]] = []
    for index, user in enumerate(settings.eks.users):
        where = f"target.users[{index}].{'permissionSet' if user.principal is None else 'principal'}"
        if user.principal is not None:
            yield from check_principal_exists(where, user.principal, facts, facts.users)
        elif user.permission_set is not None:
            yield from _check_permission_set_role(where, user.permission_set, facts)
        if (arn := resolve_principal(user, facts)) is None:
            continue
        resolved.append((where, arn, user))
        text = format_value(user.principal or user.permission_set)
        if arn == facts.caller.principal_arn:
            fix = "Run `pulumi up` as another user, or remove the user."
            yield Problem(where, f"{text} is the caller of `pulumi up`, who becomes a cluster admin. {fix}")
        elif user.principal is None and arn in settings.eks.admins:
            both = f"has the role {arn}, which is also in target.admins"
            yield Problem(where, f"{text} {both}. Remove it from one of the two.")
    if any(user.principal is None for _, _, user in resolved):
        yield from _find_repeated(settings, resolved)


def _enumerate_users(settings: AnyStack) -> Iterator[tuple[str, JobUser]]:
    users = settings.target.users if isinstance(settings, ExistingSettings) else settings.eks.users
    return ((f"target.users[{index}]", user) for index, user in enumerate(users))


def _name_user(user: JobUser) -> str:
    """Return the identity of the user; empty if the entry names nobody."""
    if isinstance(user, IamUser):
        return user.principal or (f"permission set {user.permission_set}" if user.permission_set else "")
    assert isinstance(user, KubernetesUser)
    return f"user {user.user}" if user.user else f"group {user.group}" if user.group else ""


def _find_repeated(settings: AnyStack, users: Iterable[tuple[str, str, JobUser]]) -> Iterator[Problem]:
    """Yield users that have an earlier entry for the same namespace: one of the two accesses would have no effect.

    `users` contains the path, the identity and the entry of each user."""
    first: dict[tuple[str, str], str] = {}
    for where, identity, user in users:
        repeated = [
            (name, first[identity, name])
            for name in dict.fromkeys(list_user_namespaces(user, settings.platform))
            if identity and (identity, name) in first
        ]
        if repeated:
            name, earlier = repeated[0]
            yield Problem(where, f"repeats {earlier} for namespace {name}. Remove one of the two.")
        for name in list_user_namespaces(user, settings.platform):
            first.setdefault((identity, name), where)


def _check_only_one(where: str, **names: str | None) -> Iterator[Problem]:
    keys_set = [key for key, value in names.items() if value is not None]
    keys = list(names)
    if not keys_set:
        yield Problem(where, f"names nobody. Set {keys[0]} or {keys[1]}.")
    elif len(keys_set) > 1:
        yield Problem(f"{where}.{keys[1]}", f"excludes {keys[0]}. Remove one of the two.")


def _check_permission_set_name(where: str, name: str) -> Iterator[Problem]:
    if name.startswith(ROLE_PREFIX):
        plain = re.sub(r"_[0-9a-f]{16}$", "", name.removeprefix(ROLE_PREFIX))
        yield Problem(where, f"{format_value(name)} is the name of a role. Use the name of its permission set, such as {plain}.")
    elif not _PERMISSION_SET.fullmatch(name):
        fix = "Use its name as shown in IAM Identity Center, such as Researcher."
        yield Problem(where, f"{format_value(name)} is not the name of a permission set. {fix}")


def _check_permission_set_role(where: str, name: str, facts: Facts) -> Iterator[Problem]:
    roles = facts.permission_sets.get(name, ())
    if not roles:
        fix = "Assign it to the account in IAM Identity Center, or correct the name."
        yield Problem(where, f"{format_value(name)} has no role in account {facts.caller.account}. {fix}")
    elif len(roles) > 1:
        fix = "Use principal with the ARN of the current role."
        yield Problem(where, f"{format_value(name)} has {len(roles)} roles: {join_with_and(roles)}. {fix}")
