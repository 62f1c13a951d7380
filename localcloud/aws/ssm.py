"""Systems Manager: public parameters for the AMIs of the local AWS."""

import functools
from typing import Any

from moto.core.utils import utcnow
from moto.ssm.models import Parameter, ParameterDict

from localcloud.aws.images import list_ssm_parameters

_PARAMETER: Any = Parameter
_OURS = (
    "/aws/service/eks/optimized-ami",
    "/aws/service/ami-amazon-linux-latest",
    "/aws/service/canonical/ubuntu",
    "/aws/service/deeplearning/ami",
)


def extend_moto() -> None:
    """https://docs.aws.amazon.com/systems-manager/latest/userguide/parameter-store-public-parameters.html"""
    original = ParameterDict._check_loading_status

    @functools.wraps(original)
    def check_loading_status(self: Any, key: str) -> None:
        if not str(key or "").startswith("/aws/service/"):
            return
        if not str(key).startswith(_OURS):
            original(self, key)
        elif not getattr(self, "local_cloud_loaded", False):
            self.local_cloud_loaded = True
            _load_parameters(self)

    ParameterDict._check_loading_status = check_loading_status  # type: ignore[method-assign]


def _load_parameters(into: Any) -> None:
    for name, value in list_ssm_parameters(into.region_name).items():
        parameter = _PARAMETER(
            account_id="",  # the ARN of a parameter owned by AWS has no account id
            name=name,
            value=value,
            parameter_type="String",
            description=None,
            allowed_pattern=None,
            keyid=None,
            last_modified_date=utcnow(),
            version=1,
            data_type="aws:ec2:image" if value.startswith("ami-") else "text",
        )
        dict.__setitem__(into, name, [parameter])
