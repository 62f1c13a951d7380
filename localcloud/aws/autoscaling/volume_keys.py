"""Check whether Auto Scaling may use the KMS keys of the volumes of a launch.

Auto Scaling's service-linked role may use the AWS managed key, but a customer managed key only if the key's policy or a
grant allows it. Otherwise EC2 terminates the instance right after the launch:
https://docs.aws.amazon.com/autoscaling/ec2/userguide/ts-as-instancelaunchfailure.html
"""

from collections.abc import Mapping
from typing import Any

from localcloud.aws.call import backend_of
from localcloud.aws.ec2 import ebs_defaults, image_calls, launch_volumes
from localcloud.aws.errors import AwsError
from localcloud.aws.policy_evaluation import Request, evaluate_request, parse_document

SERVICE_ROLE = "role/aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling"
OPERATIONS = ("CreateGrant", "Decrypt", "DescribeKey", "GenerateDataKeyWithoutPlaintext", "ReEncryptFrom", "ReEncryptTo")
"""https://docs.aws.amazon.com/ebs/latest/userguide/ebs-encryption-requirements.html"""


def check_key_access(ec2: Any, data: Mapping[str, Any]) -> None:
    """Raise the error that the scaling activity reports if the role may not use the key of a volume."""
    image = image_calls.find_launchable_image(ec2, data["ImageId"])
    volumes = [volume for volume in launch_volumes.plan(ec2, data, image) if volume.encrypted]
    keys = backend_of("kms", ec2.account_id, ec2.region_name)
    for name in {volume.kms_key or ebs_defaults.get_default_key(ec2) for volume in volumes}:
        key = keys.keys.get(keys.any_id_to_key_id(name))
        if key is None or key.key_state != "Enabled":
            raise _build_termination_error("Client.InvalidKMSKey.InvalidState: The KMS key provided is in an incorrect state")
        if key.key_manager != "AWS" and not all(_can_use_key(key, operation, ec2) for operation in OPERATIONS):
            raise _build_termination_error("Client.InternalError: Client error on launch")


def _can_use_key(key: Any, operation: str, ec2: Any) -> bool:
    """Return whether the role may use the key. Permissions for the account's root do not count: they delegate the
    decision to IAM policies, and the role's IAM policy does not allow any key.
    """
    role = f"arn:aws:iam::{ec2.account_id}:{SERVICE_ROLE}"
    context = {
        "aws:principalaccount": ec2.account_id,
        "aws:principalarn": role,
        "kms:calleraccount": ec2.account_id,
        "kms:viaservice": f"ec2.{ec2.region_name}.amazonaws.com",
    }
    if operation == "CreateGrant":
        context["kms:grantisforawsresource"] = "true"
    request = Request(f"kms:{operation}", context=context, principal={"AWS": role}, via_account=False)
    decision = evaluate_request(request, parse_document(key.policy))
    granted = any(
        grant.grantee_principal == role and operation in grant.operations and not grant.constraints
        for grant in key.grants.values()
    )
    return decision == "allow" or (decision == "implicit deny" and granted)


def _build_termination_error(reason: str) -> AwsError:
    text = "Instance became unhealthy while waiting for instance to be in InService state. Termination Reason:"
    return AwsError("Client.InternalError", f"{text} {reason}")
