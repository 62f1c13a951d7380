"""Choose the security groups of an existing file system to which the stack adds an ingress rule for its nodes."""

from infra.facts.model import Facts
from infra.plan.placement import vpc_zones
from infra.settings.stack import Settings


def groups_to_open(settings: Settings, facts: Facts) -> tuple[str, ...]:
    """Return one security group of each mount target that nodes may use, without duplicates.

    The choice must not depend on existing rules. Otherwise this stack's own rule would change the choice, and the next
    `up` would remove it.
    """
    file_system = facts.file_system
    if not settings.storage.adds_ingress_rule or file_system is None or file_system.admitted is None:
        return ()
    used = [file_system.admitted[zone] for zone in vpc_zones(settings, facts) if zone in file_system.admitted]
    return tuple(sorted({min(groups) for groups in used if groups}))
