"""Look up the KMS keys with which other services encrypt data."""

from collections.abc import Callable

from localcloud.aws.call import Call
from localcloud.aws.errors import AwsError


def find_enabled_key_arn(call: Call, managed: str, refused: Callable[[str], AwsError]) -> str:
    """Return the ARN of the key that the call requests, or else of the AWS managed key with alias `managed`.

    If the key does not exist or cannot be used, raise the service's error, which `refused` creates from a message.
    """
    kms = call.backend_of("kms")
    key_reference = call.params.get("KmsKeyId", managed)
    try:
        key = kms.keys[kms.any_id_to_key_id(key_reference)]
    except (KeyError, AttributeError, TypeError):
        raise refused(f"The KMS key '{key_reference}' does not exist.") from None
    if key.key_state != "Enabled":
        raise refused(f"The KMS key '{key.arn}' is {key.key_state}.")
    return str(key.arn)
