"""Credentials of instance roles: sessions of the local STS, named after the instance as in EC2.

https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_use_switch-role-ec2_instance-profiles.html
"""

from datetime import timedelta
from typing import Any

from moto.core.utils import utcnow

from localcloud.aws import gateway, sts
from localcloud.hosts.metadata import Credentials, Machine, Unauthorized

SERVICE = "ec2.amazonaws.com"
LIFETIME = timedelta(hours=6)
RENEWED_BEFORE = timedelta(hours=1)


class Lender:
    """Cache of STS sessions, keyed by instance. Sessions are renewed before they expire."""

    def __init__(self) -> None:
        self._sessions: dict[str, Any] = {}

    def get_credentials(self, machine: Machine) -> Credentials:
        """Return credentials for the instance's role. Raises Unauthorized."""
        with gateway.LOCK:
            session = self._sessions.get(machine.instance_id)
            if session is None or session.expiration - utcnow() < RENEWED_BEFORE or session.role_arn != machine.role_arn:
                session = self._sessions[machine.instance_id] = _assume_role(machine)
            return Credentials(
                session.access_key_id,
                session.secret_access_key,
                session.session_token,
                session.expiration.strftime("%Y-%m-%dT%H:%M:%SZ"),
            )

    def drop_session(self, instance_id: str) -> None:
        self._sessions.pop(instance_id, None)


def _assume_role(machine: Machine) -> Any:
    assert machine.role_arn is not None  # callers have checked that there is a role
    who, name, here = ("Service", SERVICE), machine.instance_id, (machine.subnet,)
    try:
        return sts.open_session(
            machine.region, machine.role_arn, who, name=name, lifetime=LIFETIME, tags={}, context={}, subnets=here
        )
    except sts.NotTrusted:
        text = f"EC2 cannot assume the role {machine.role}; its trust policy must allow the service {SERVICE}"
        raise Unauthorized(text) from None
