"""Initial state of a local AWS account: default user, access key and managed policies."""

import copy
import functools
import secrets
from datetime import UTC, datetime
from typing import Any

from localcloud.keys import Key

ACCOUNT = "123456789012"
USER_NAME = "local-engineer"
USER_ARN = f"arn:aws:iam::{ACCOUNT}:user/{USER_NAME}"
ADMINISTRATOR_ACCESS = "arn:aws:iam::aws:policy/AdministratorAccess"
"""Managed policy that is attached to the default user. Detach the policy to test what other policies permit."""

_SINCE = datetime(2026, 1, 1, tzinfo=UTC).replace(tzinfo=None)
_key = Key.create()


def default_access_key() -> Key:
    """Return the access key of the default user. The key is random in each process that does not call `use`."""
    return _key


def set_default_access_key(chosen: Key) -> None:
    """Make this the access key of the default user. Call this before the first request."""
    global _key
    _key = chosen


def extend_moto() -> None:
    _make_secret_keys_unpredictable()
    _add_default_user()
    _export_default_credentials()
    _speed_up_account_lookup()
    _parse_managed_policies_once()


def _make_secret_keys_unpredictable() -> None:
    """Replace moto's generator of secret keys. The same generator also produces resource IDs, from which its state
    can be computed."""
    from moto.iam import models

    models.random_alphanumeric = lambda length: secrets.token_urlsafe(length)[:length]  # type: ignore[attr-defined]


def _add_default_user() -> None:
    """Make moto add the default user and access key whenever it creates or resets the account's IAM backend."""
    from moto.iam import models  # slow to import

    from localcloud.aws import quotas, service_linked_roles

    original = models.IAMBackend.__init__

    @functools.wraps(original)
    def init_with_default_user(self: Any, region_name: str, account_id: str) -> None:
        original(self, region_name, account_id)
        if account_id == ACCOUNT and region_name == "aws":
            user = self.create_user(region_name, USER_NAME)
            user.id, user.create_date = "AIDALOCALCLOUDENGINEE", _SINCE
            access_key = user.create_access_key(prefix="AKIA")
            access_key.access_key_id, access_key.secret_access_key = _key.access_key_id, _key.secret_access_key
            access_key.create_date = _SINCE
            self.access_keys[_key.access_key_id] = access_key
            self.attach_user_policy(ADMINISTRATOR_ACCESS, USER_NAME)
            if not quotas.is_new_account():
                for service in service_linked_roles.NAMES:
                    service_linked_roles.create_role(self, service)

    models.IAMBackend.__init__ = init_with_default_user  # type: ignore[method-assign]


def _export_default_credentials() -> None:
    """Make `mock_aws` export the default user's credentials instead of its own."""
    from moto.core.models import MockAWS

    original = MockAWS.__init__

    @functools.wraps(original)
    def init_with_default_credentials(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        self._fake_creds = _key.environment

    MockAWS.__init__ = init_with_default_credentials  # type: ignore[method-assign]


def find_account(access_key: str) -> str:
    """Return the account that owns the key.

    moto's own lookup would create an IAM backend per partition, with 1,600 managed policies each.
    """
    from moto.iam import models

    for account, partitions in list(models.iam_backends.items()):
        if any(access_key in backend.access_keys for backend in list(partitions.values())):
            return account
    return ACCOUNT


def _speed_up_account_lookup() -> None:
    from moto.iam import models

    models.get_account_id_from = find_account


def _parse_managed_policies_once() -> None:
    """Parse moto's 1,600 managed policies only once, which saves 0.25 s per account.

    The managed policies of two accounts differ only in their attachment counts.
    """
    from moto.iam.models import IAMBackend

    original = IAMBackend._init_aws_policies
    parsed: dict[tuple[str, str], list[Any]] = {}

    def load_managed_policies(self: Any) -> list[Any]:
        key = (self.region_name, self.account_id)
        if key not in parsed:
            parsed[key] = original(self)
        return [copy.copy(policy) for policy in parsed[key]]

    IAMBackend._init_aws_policies = load_managed_policies  # type: ignore[method-assign]
