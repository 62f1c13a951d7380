"""Queries about the caller's identity, and the account's service quotas and their use."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from infra.facts.clients import Clients, build_filter, is_error, query, read_pages
from infra.facts.ec2 import list_instances
from infra.facts.model import Caller
from infra.facts.service_quotas import Quota, find_vcpu_quota
from infra.naming import STACK_TAG
from infra.settings.pools import OnDemand, Spot
from infra.settings.stack import Settings


def read_caller(clients: Clients) -> Caller:
    """Return the caller's identity from STS. Raises FactsError if AWS could not be queried.

    For an assumed role (including SSO), a later query resolves the principal to the role's ARN with its path, because
    EKS access entries require it.
    """
    identity = query(clients.region, clients.sts.get_caller_identity)
    arn: str = identity["Arn"]
    return Caller(account=identity["Account"], arn=arn, principal_arn=arn if ":iam:" in arn and ":user/" in arn else None)


def parse_role_name(arn: str) -> str | None:
    """Return the role name in the ARN of an assumed role; None for any other ARN.

    >>> parse_role_name("arn:aws:sts::123456789012:assumed-role/Admin/session"), parse_role_name("arn:aws:iam::1:user/ada")
    ('Admin', None)
    """
    kind, _, rest = arn.split(":", 5)[5].partition("/")
    return rest.partition("/")[0] if kind == "assumed-role" else None


def read_role_arn(clients: Clients, name: str) -> str:
    arn: str = clients.iam.get_role(RoleName=name)["Role"]["Arn"]
    return arn


def find_principal_arn(clients: Clients, arn: str) -> str | None:
    """Look up a role or user in IAM by the name in `arn`. Return the actual ARN, whose path may differ from `arn`.

    Return None if the role or user does not exist.
    """
    kind, _, path_and_name = arn.split(":", 5)[5].partition("/")
    name = path_and_name.rpartition("/")[2]
    try:
        principal = clients.iam.get_role(RoleName=name) if kind == "role" else clients.iam.get_user(UserName=name)
    except clients.iam.exceptions.NoSuchEntityException:
        return None
    return str(principal[kind.capitalize()]["Arn"])


def list_required_quotas(settings: Settings) -> tuple[dict[str, Quota], list[str]]:
    """Return the quotas that limit the stack, keyed by quota code, and the instance types without a known quota."""
    quotas: dict[str, Quota] = {}
    unknown: list[str] = []
    launched = [(settings.target.head_type, False)]
    launched += [
        (pool.instance_type, isinstance(pool.capacity, Spot)) for pool in settings.pools if uses_vcpu_quota(pool.capacity)
    ]
    for type_name, spot in launched:
        limit = find_vcpu_quota(type_name, spot=spot)
        if limit:
            quotas[limit.code] = limit
        elif type_name:
            unknown.append(f"{type_name} {'as spot' if spot else 'on demand'}")
    return quotas, unknown


def uses_vcpu_quota(capacity: object) -> bool:
    """True if launching instances of this kind uses vCPU quota.

    Reserved capacity uses quota when the reservation is created, not when instances are launched.
    """
    return isinstance(capacity, OnDemand | Spot)


def read_quota_values(clients: Clients, codes: Iterable[str]) -> dict[str, float]:
    return {code: value for code in codes if (value := read_quota_value(clients, "ec2", code)) is not None}


def read_quota_value(clients: Clients, service: str, code: str) -> float | None:
    """Return the account's value for a quota; None if Service Quotas does not report one."""
    try:
        answer = clients.quotas.get_service_quota(ServiceCode=service, QuotaCode=code)
    except clients.quotas.exceptions.ClientError as error:
        if is_error(error, "NoSuchResourceException"):
            return None
        raise
    return float(answer["Quota"]["Value"])


RUNNING = ("pending", "running")


def count_vcpus_in_use(clients: Clients, stack: str) -> dict[str, int]:
    """Return the vCPUs in use, keyed by quota code. The stack's own instances do not count, because the planned sizes
    include them.

    A reservation uses quota whether or not instances run in it. Instances in a reservation use no additional quota.
    """
    in_use: Counter[str] = Counter()
    each: dict[str, int] = {}
    for instance in list_instances(clients, build_filter("instance-state-name", RUNNING)):
        vcpus = _count_vcpus(instance)
        each[instance["InstanceType"]] = vcpus
        limit = find_vcpu_quota(instance["InstanceType"], spot=instance.get("InstanceLifecycle") == "spot")
        is_own = {"Key": STACK_TAG, "Value": stack} in instance.get("Tags", ())
        if limit and not is_own and not instance.get("CapacityReservationId"):
            in_use[limit.code] += vcpus
    active = [build_filter("state", ["active"])]
    for reservation in read_pages(clients.ec2, "describe_capacity_reservations", "CapacityReservations", Filters=active):
        limit, name = find_vcpu_quota(reservation["InstanceType"], spot=False), reservation["InstanceType"]
        if limit and reservation.get("ReservationType", "default") == "default":  # Capacity Blocks use no vCPU quota
            if name not in each:
                described = clients.ec2.describe_instance_types(InstanceTypes=[name])["InstanceTypes"]
                each[name] = described[0]["VCpuInfo"]["DefaultVCpus"]
            in_use[limit.code] += each[name] * reservation["TotalInstanceCount"]
    return dict(in_use)


def _count_vcpus(instance: Mapping[str, Any]) -> int:
    options = instance.get("CpuOptions") or {}
    return int(options.get("CoreCount", 0)) * int(options.get("ThreadsPerCore", 1))
