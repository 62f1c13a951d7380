"""Makes moto the local AWS."""

import functools
import importlib
import os
import threading
from typing import Any

_EXTENSIONS = ("account", "sts", "iam", "kms", "logs", "ssm", "ssm_sessions", "quotas", "efs", "s3", "ec2", "autoscaling", "eks")
"""Modules of this package with an `install()`, which registers the operations of a service."""

_lock = threading.Lock()
_installed = False


def install() -> None:
    """Extend moto in this process, once. Call it before `mock_aws()`, a boto3 client or the server starts."""
    global _installed
    with _lock:
        if _installed:
            return
        _installed = True
        _configure_moto()
        _install_extensions()


def _configure_moto() -> None:
    """moto reads most settings when it is imported: set both, in case it was."""
    os.environ["MOTO_IAM_LOAD_MANAGED_POLICIES"] = "true"
    os.environ["MOTO_EC2_ENABLE_INSTANCE_TYPE_VALIDATION"] = "true"
    os.environ["MOTO_ENABLE_AMI_VALIDATION"] = "true"
    os.environ["MOTO_ENABLE_KEYPAIR_VALIDATION"] = "true"
    from moto import settings
    from moto.core import errors, responses
    from moto.core.utils import method_names_from_class

    settings.EC2_ENABLE_INSTANCE_TYPE_VALIDATION = True
    settings.ENABLE_AMI_VALIDATION = True
    settings.ENABLE_KEYPAIR_VALIDATION = True
    # It warns of error codes that botocore's model of a service lacks; AWS uses many of those.
    vars(errors)["warn"] = lambda *_, **__: None
    # It lists a class's methods by inspection on every request: a quarter of a request's time.
    vars(responses)["method_names_from_class"] = functools.cache(method_names_from_class)


def _install_extensions() -> None:
    from moto.core.base_backend import BackendDict
    from moto.core.common_models import BaseModel

    from localcloud.aws import transport
    from localcloud.aws.inventory import pristine

    BackendDict.reset = staticmethod(_reset)  # type: ignore[method-assign]
    # moto keeps every object it ever made, for its web page: a server would grow without end.
    BaseModel.__new__ = staticmethod(lambda cls, *_, **__: object.__new__(cls))  # type: ignore[method-assign]
    pristine.install()
    transport.install()
    for extension in _EXTENSIONS:
        importlib.import_module(f"localcloud.aws.{extension}").install()


def _reset() -> None:
    """Forget everything. moto's own reset first fills each backend anew (default VPCs, policies) and then drops it."""
    from moto.core.base_backend import BackendDict, BaseBackend, backend_lock

    from localcloud.aws import patching

    patching.run_reset_actions()
    with backend_lock:
        in_use: list[Any] = BackendDict._instances  # type: ignore[misc]
        for backends in in_use:
            for _, _, backend in backends.iter_backends():
                if type(backend).reset is not BaseBackend.reset:  # it has files or threads to end
                    backend.reset()
            for account in backends.values():
                account.clear()  # a cache of moto's keeps the account's dict itself alive
            backends.clear()
        in_use.clear()
