"""Installation of the local AWS's extensions in moto."""

import functools
import importlib
import os
import threading
from typing import Any

_EXTENSIONS = (
    "account",
    "sts",
    "iam",
    "policy_simulation",
    "pricing",
    "kms",
    "logs",
    "ssm",
    "ssm_sessions",
    "service_quotas",
    "efs",
    "fsx",
    "ecr",
    "s3",
    "ec2",
    "autoscaling",
    "eks",
    "ledger",
)
"""Modules of this package whose `extend_moto()` registers the operations of a service."""

_lock = threading.Lock()
_installed = False


def extend_moto() -> None:
    """Extend moto in this process. Further calls do nothing.

    Call this before using `mock_aws()`, a boto3 client or the server.
    """
    global _installed
    with _lock:
        if _installed:
            return
        _installed = True
        _configure_moto()
        _install_extensions()


def _configure_moto() -> None:
    """Set moto's environment variables and settings.

    moto reads most variables on import, so change the settings directly as well.
    """
    os.environ["MOTO_IAM_LOAD_MANAGED_POLICIES"] = "true"
    os.environ["MOTO_EC2_ENABLE_INSTANCE_TYPE_VALIDATION"] = "true"
    os.environ["MOTO_ENABLE_AMI_VALIDATION"] = "true"
    os.environ["MOTO_ENABLE_KEYPAIR_VALIDATION"] = "true"
    from moto import settings  # slow to import
    from moto.core import errors, responses
    from moto.core.utils import method_names_from_class

    settings.EC2_ENABLE_INSTANCE_TYPE_VALIDATION = True
    settings.ENABLE_AMI_VALIDATION = True
    settings.ENABLE_KEYPAIR_VALIDATION = True
    # moto warns about error codes that are missing in botocore's model of a service, but AWS itself uses many such
    # codes.
    vars(errors)["warn"] = lambda *_, **__: None
    # moto inspects a class's methods on every request, which takes a quarter of the request time.
    vars(responses)["method_names_from_class"] = functools.cache(method_names_from_class)


def _install_extensions() -> None:
    from moto.core.base_backend import BackendDict
    from moto.core.common_models import BaseModel

    from localcloud.aws import transport
    from localcloud.aws.inventory import pristine

    BackendDict.reset = staticmethod(_reset_state)  # type: ignore[method-assign]
    # For its web page, moto keeps every object that it ever created, so a server would leak memory.
    BaseModel.__new__ = staticmethod(lambda cls, *_, **__: object.__new__(cls))  # type: ignore[method-assign]
    pristine.extend_moto()
    transport.extend_moto()
    for extension in _EXTENSIONS:
        importlib.import_module(f"localcloud.aws.{extension}").extend_moto()


def _reset_state() -> None:
    """Drop all state.

    This is faster than moto's own reset, which recreates each backend's default resources (VPCs, policies).
    """
    from moto.core.base_backend import BackendDict, BaseBackend, backend_lock

    from localcloud.aws import patching

    patching.run_reset_actions()
    with backend_lock:
        in_use: list[Any] = BackendDict._instances  # type: ignore[misc]
        for backends in in_use:
            for _, _, backend in backends.iter_backends():
                if type(backend).reset is not BaseBackend.reset:  # a backend's own reset closes files or ends threads
                    backend.reset()
            for account in backends.values():
                account.clear()  # because one of moto's caches keeps a reference to the dict
            backends.clear()
        in_use.clear()
