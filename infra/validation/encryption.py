"""Rules for the KMS key that encrypts the nodes' volumes."""

from collections.abc import Iterator
from typing import Final

from infra.config.messages import all_of
from infra.config.problems import Problem, warning
from infra.facts.model import EbsKey, Facts
from infra.settings.stack import Settings
from infra.validation.key_policies import Verdict, allows

WHERE: Final = "account"

OPERATIONS: Final = (
    *("CreateGrant", "Decrypt", "DescribeKey", "GenerateDataKeyWithoutPlaintext", "ReEncryptFrom", "ReEncryptTo"),
)
"""https://docs.aws.amazon.com/ebs/latest/userguide/ebs-encryption-requirements.html"""

HOW: Final = "https://docs.aws.amazon.com/autoscaling/ec2/userguide/key-policy-requirements-EBS-encryption.html"


def default_key(settings: Settings, facts: Facts) -> Iterator[Problem]:
    """Check that Auto Scaling, which launches all nodes, may use the account's default EBS key. A customer managed key
    must allow this use explicitly."""
    key = facts.ebs_key
    if key is None:
        return
    reset = f"`aws ec2 reset-ebs-default-kms-key-id --region {facts.region}`"
    what = f"EBS encrypts volumes in {facts.region} by default with {key.arn}"
    if key.state != "Enabled":
        yield Problem(WHERE, f"{what}, but the state of the key is {key.state}. Enable the key, or run {reset}.")
        return
    verdicts = {operation: _may(key, operation, facts) for operation in OPERATIONS}
    missing = [operation for operation, verdict in verdicts.items() if verdict is False]
    unclear = [operation for operation, verdict in verdicts.items() if verdict is None]
    if missing:
        effect = f"The key does not allow AWSServiceRoleForAutoScaling to call {all_of(missing)}, so no node could start."
        yield Problem(WHERE, f"{what}. {effect} Extend the key policy as in {HOW}, or run {reset}.")
    elif unclear:
        effect = f"Whether its policy allows AWSServiceRoleForAutoScaling to call {all_of(unclear)} depends on conditions."
        yield warning(WHERE, f"{what}. {effect} If nodes fail to launch with Client.InternalError, see {HOW}.")


def _may(key: EbsKey, operation: str, facts: Facts) -> Verdict:
    context = {
        "aws:principalaccount": facts.caller.account,
        "aws:principalarn": key.role,
        "kms:calleraccount": facts.caller.account,
        "kms:viaservice": f"ec2.{facts.region}.amazonaws.com",
    }
    if operation == "CreateGrant":
        context["kms:grantisforawsresource"] = "true"
    verdict = allows(key.policy, key.role, f"kms:{operation}", context)
    return True if verdict is False and operation in key.grants else verdict
