"""vCPUs of each quota that are already in use: instances outside the stack, and On-Demand Capacity Reservations."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from infra.facts.clients import Clients, filter_by, read_pages
from infra.facts.ec2 import instances
from infra.facts.service_quotas import quota
from infra.naming import STACK_TAG

RUNNING = ("pending", "running")


def vcpus_in_use(clients: Clients, stack: str) -> dict[str, int]:
    """Return the vCPUs in use, keyed by quota code. The stack's own instances do not count, because the planned sizes
    include them.

    A reservation uses quota whether or not instances run in it. Instances in a reservation use no additional quota.
    """
    in_use: Counter[str] = Counter()
    each: dict[str, int] = {}
    for instance in instances(clients, filter_by("instance-state-name", RUNNING)):
        vcpus = _vcpus(instance)
        each[instance["InstanceType"]] = vcpus
        limit = quota(instance["InstanceType"], spot=instance.get("InstanceLifecycle") == "spot")
        if limit and not _is_own(instance, stack) and not instance.get("CapacityReservationId"):
            in_use[limit.code] += vcpus
    active = [filter_by("state", ["active"])]
    for reservation in read_pages(clients.ec2, "describe_capacity_reservations", "CapacityReservations", Filters=active):
        limit, name = quota(reservation["InstanceType"], spot=False), reservation["InstanceType"]
        if limit and reservation.get("ReservationType", "default") == "default":  # Capacity Blocks use no vCPU quota
            if name not in each:
                described = clients.ec2.describe_instance_types(InstanceTypes=[name])["InstanceTypes"]
                each[name] = described[0]["VCpuInfo"]["DefaultVCpus"]
            in_use[limit.code] += each[name] * reservation["TotalInstanceCount"]
    return dict(in_use)


def _vcpus(instance: Mapping[str, Any]) -> int:
    options = instance.get("CpuOptions") or {}
    return int(options.get("CoreCount", 0)) * int(options.get("ThreadsPerCore", 1))


def _is_own(instance: Mapping[str, Any], stack: str) -> bool:
    return any(tag["Key"] == STACK_TAG and tag["Value"] == stack for tag in instance.get("Tags", ()))
