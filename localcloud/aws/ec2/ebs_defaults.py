"""The account's default KMS key for EBS, per Region.

https://docs.aws.amazon.com/ebs/latest/userguide/encryption-by-default.html
"""

from dataclasses import dataclass
from typing import Any

from localcloud.aws.call import Call, backend_of
from localcloud.aws.ec2.refusals import build_invalid_value_error, stop_dry_run
from localcloud.aws.patching import get_state, operation

OF_AWS = "alias/aws/ebs"


@dataclass
class DefaultKey:
    arn: str | None = None
    """ARN of the customer managed key that the account chose, if any."""


@operation("ec2", "GetEbsDefaultKmsKeyId")
def get_ebs_default_kms_key_id(call: Call) -> dict[str, Any]:
    stop_dry_run(call)
    return {"KmsKeyId": get_state(call.backend, DefaultKey).arn or OF_AWS}


@operation("ec2", "ModifyEbsDefaultKmsKeyId")
def modify_ebs_default_kms_key_id(call: Call) -> dict[str, Any]:
    """Set the default key.

    AWS accepts any key ID; later calls that use the key fail. The local AWS rejects keys that do not exist.
    https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_ModifyEbsDefaultKmsKeyId.html
    """
    name, keys = call.params["KmsKeyId"], backend_of("kms", call.account, call.region)
    key = keys.keys.get(keys.any_id_to_key_id(name))
    if key is None:
        raise build_invalid_value_error(name, "kmsKeyId", "The key does not exist.")
    if key.key_spec != "SYMMETRIC_DEFAULT":
        raise build_invalid_value_error(name, "kmsKeyId", "EBS supports only symmetric keys.")
    stop_dry_run(call)
    get_state(call.backend, DefaultKey).arn = key.arn
    return {"KmsKeyId": key.arn}


@operation("ec2", "ResetEbsDefaultKmsKeyId")
def reset_ebs_default_kms_key_id(call: Call) -> dict[str, Any]:
    stop_dry_run(call)
    get_state(call.backend, DefaultKey).arn = None
    return {"KmsKeyId": OF_AWS}


def get_default_key(backend: Any) -> str:
    """Return the ARN of the key for volumes that are created without a key. AWS creates the AWS managed key on first
    use.

    https://docs.aws.amazon.com/ebs/latest/userguide/how-ebs-encryption-works.html
    """
    chosen = get_state(backend, DefaultKey).arn
    if chosen is not None:
        return chosen
    keys = backend_of("kms", backend.account_id, backend.region_name)
    if not keys.alias_exists(OF_AWS):
        key = keys.create_key("", "ENCRYPT_DECRYPT", "SYMMETRIC_DEFAULT", "Default key that protects my EBS volumes", None)
        key.key_manager = "AWS"
        keys.create_alias(key.id, OF_AWS)
    return str(keys.describe_key(OF_AWS).arn)
